SELECT checkpoints_timed AS num_timed,
       checkpoints_req AS num_requested,
       checkpoint_write_time / 1000 AS write_time,
       checkpoint_sync_time / 1000 AS sync_time,
       buffers_checkpoint AS buffers_written
FROM pg_catalog.pg_stat_bgwriter
