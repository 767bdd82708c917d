-- A row for each session: to group them here would cost more than to send them.
SELECT backend_type,
       application_name AS application,
       state,
       wait_event_type AS wait_type,
       wait_event,
       -- What an idle session did before is not what it does. The length of the text is a part of what a poll costs.
       CASE WHEN state <> 'idle' THEN left(query, 240) END AS query,
       CASE WHEN state <> 'idle' THEN query_id END AS query_id
FROM pg_catalog.pg_stat_get_activity(NULL)
WHERE pid <> pg_backend_pid()
