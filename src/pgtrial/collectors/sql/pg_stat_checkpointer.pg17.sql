SELECT num_timed, num_requested,
       restartpoints_timed, restartpoints_req, restartpoints_done,
       write_time / 1000 AS write_time,
       sync_time / 1000 AS sync_time,
       buffers_written
FROM pg_catalog.pg_stat_checkpointer
