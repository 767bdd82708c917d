-- $1 are the sessions of the load that were there at the reading before, $2 is how their names begin.
SELECT profile.pid,
       coalesce(profile.event_type, '') || '/' || coalesce(profile.event, '') AS object,
       sum(profile.count) AS count,
       activity.pid IS NOT NULL AS is_there,
       -- "10" and "10ms" are the same, by version of the extension.
       CASE WHEN setting.period ~ '^\d+$' THEN setting.period::float8 / 1000
            ELSE extract(epoch FROM setting.period::interval)
       END AS period
FROM @extschema@.pg_wait_sampling_profile AS profile
CROSS JOIN (SELECT current_setting('pg_wait_sampling.profile_period') AS period) AS setting
LEFT JOIN pg_catalog.pg_stat_get_activity(NULL) AS activity
       ON activity.pid = profile.pid
      AND activity.backend_type = 'client backend'
      AND starts_with(activity.application_name, $2)
WHERE activity.pid IS NOT NULL OR profile.pid = ANY ($1::int[])
GROUP BY 1, 2, 4, 5
