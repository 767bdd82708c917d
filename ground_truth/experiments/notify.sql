BEGIN;
INSERT INTO note VALUES (:client_id, 'one row, one commit');
SELECT CASE WHEN :notify = 1 THEN pg_notify('notes', :client_id::text) END;
END;
