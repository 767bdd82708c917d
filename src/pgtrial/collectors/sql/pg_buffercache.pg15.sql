SELECT coalesce(regexp_replace(pg_filenode_relation(reltablespace, relfilenode)::text, '^public[.]', ''), '(gone)') AS object,
       sum(buffers) AS buffers,
       sum(dirty) AS dirty
FROM (
    SELECT reltablespace, relfilenode, count(*) AS buffers, count(*) FILTER (WHERE isdirty) AS dirty
    FROM @extschema@.pg_buffercache
    WHERE reldatabase = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
    GROUP BY reltablespace, relfilenode
) AS used
GROUP BY 1
