CREATE TABLE measurement (sensor int NOT NULL, at timestamptz NOT NULL DEFAULT now(), value float8 NOT NULL);
CREATE INDEX ON measurement (sensor, at);
