-- What every wrong script may name.
CREATE CLASS critical WITH (priority = 6);

CREATE STREAM sensors (
  ts TIMESTAMP, location STRING, temperature INT, humidity INT,
  WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS
) USING kafka OPTIONS (subscribe 'sensors', 'kafka.bootstrap.servers' 'localhost:9092', value_format 'json');

CREATE STREAM smoke (
  at TIMESTAMP, location STRING, level DOUBLE,
  WATERMARK FOR at AS at - INTERVAL 1 MINUTE
) USING json OPTIONS (path 'in/smoke');

CREATE STREAM clicks (
  at TIMESTAMP, user STRING, item STRUCT<id: BIGINT, tags: ARRAY<STRING>>, extra MAP<STRING, STRING>
) USING rate;

CREATE TABLE places (location STRING, city STRING, size BIGINT) USING parquet OPTIONS (path 'in/places');

CREATE FUNCTION risk(a DOUBLE, b DOUBLE) RETURNS DOUBLE AS 'math:pow';
CREATE FUNCTION depth(a DOUBLE) RETURNS DOUBLE AS 'math:sqrt';

CREATE QUERY fire CLASS critical AS SELECT ts, location, temperature FROM sensors WHERE temperature > 35;
CREATE QUERY totals AS SELECT location, count(*) AS n FROM sensors GROUP BY location;
CREATE QUERY counts AS
SELECT window(ts, '10 seconds') AS w, location, count(*) AS n FROM sensors GROUP BY window(ts, '10 seconds'), location;
