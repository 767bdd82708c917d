SELECT count(nextval(sequence.id))
FROM (
    SELECT format('number_%s', :client_id % current_setting('truth.sequences')::integer)::regclass AS id OFFSET 0
) AS sequence, generate_series(1, 1000);
