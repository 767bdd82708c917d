INSERT INTO note SELECT :client_id, 'one row, one commit' FROM pg_advisory_xact_lock(:client_id % :locks);
