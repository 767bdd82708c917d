SELECT backend_type,
       application_name AS application,
       state,
       wait_event_type AS wait_type,
       wait_event,
       -- What an idle session did before is not what it does. Strings and numbers become "?"; the text is cut before
       -- that, because its length is what a poll costs.
       CASE WHEN state <> 'idle'
            THEN regexp_replace(left(query, 240), '''(?:[^'']|'''')*''?|(?<![$\w])[0-9][0-9.]*', '?', 'g')
       END AS query,
       count(*) AS sessions
FROM pg_catalog.pg_stat_activity
WHERE pid <> pg_backend_pid()
GROUP BY 1, 2, 3, 4, 5, 6
