INSERT INTO paper VALUES (:client_id, repeat('x', 16000));
