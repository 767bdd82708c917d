SELECT queryid,
       -- Of utility statements the extension keeps literals, and passwords with them. What is quoted with dollars has
       -- no end that a pattern could find, so nothing is kept from there on.
       min(regexp_replace(left(query, 2000),
                          '''(?:[^'']|'''')*''?|\$\w*\$.*|\$[0-9]+|(?<![$\w])[0-9][0-9.]*', '?', 'g')) AS query
FROM @extschema@.pg_stat_statements(true)
WHERE toplevel AND dbid = (SELECT oid FROM pg_catalog.pg_database WHERE datname = $1)
GROUP BY queryid
