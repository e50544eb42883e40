-- A sensor network: alerts that must fire immediately, a dashboard that may lag, and a report that is not urgent.
CREATE CLASS critical WITH (priority = 6);
CREATE CLASS report WITH (priority = 1);

CREATE STREAM sensors (
  ts TIMESTAMP, location STRING, temperature INT, humidity INT,
  WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS
) USING json OPTIONS (path 'in/sensors');

CREATE QUERY fire CLASS critical INTO console AS
SELECT ts, location, temperature FROM sensors WHERE temperature > 35 AND humidity < 20;

CREATE QUERY dry_heat CLASS critical INTO console AS
SELECT ts, location FROM sensors WHERE humidity < 20 AND temperature > 35 AND location LIKE 'forest%';

CREATE QUERY climate INTO parquet OPTIONS (path 'out/climate') AS
SELECT window(ts, '10 seconds', '5 seconds') AS w, location, avg(temperature) AS t, avg(humidity) AS h
FROM sensors GROUP BY window(ts, '10 seconds', '5 seconds'), location;

CREATE QUERY hottest INTO console AS
SELECT w, location, t FROM (
  SELECT w, location, t, row_number() OVER (PARTITION BY w ORDER BY t DESC, location) AS place FROM climate
) WHERE place <= 3;

CREATE QUERY fires_by_hour CLASS report INTO parquet OPTIONS (path 'out/fires') AS
SELECT window(ts, '1 hour') AS w, location, count(*) AS fires FROM fire GROUP BY window(ts, '1 hour'), location;
