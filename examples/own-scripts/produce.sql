\set number random(1, 1000000000)
INSERT INTO job (payload) VALUES (md5((:number)::text));
