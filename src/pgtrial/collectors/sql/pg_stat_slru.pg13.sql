SELECT CASE name
           WHEN 'CommitTs' THEN 'commit_timestamp'
           WHEN 'MultiXactMember' THEN 'multixact_member'
           WHEN 'MultiXactOffset' THEN 'multixact_offset'
           WHEN 'Notify' THEN 'notify'
           WHEN 'Serial' THEN 'serializable'
           WHEN 'Subtrans' THEN 'subtransaction'
           WHEN 'Xact' THEN 'transaction'
           ELSE name
       END AS object,
       blks_zeroed, blks_hit, blks_read, blks_written, blks_exists, flushes, truncates
FROM pg_catalog.pg_stat_slru
