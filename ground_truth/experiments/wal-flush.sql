INSERT INTO note VALUES (:client_id, 'one row, one commit');
