-- Intrusion detection: who scans ports, who guesses passwords, and who does both.
-- Rows: headgate feed packets --to in
-- Run:  headgate run examples/intrusion.sql

CREATE CLASS critical WITH (priority = 6);
CREATE CLASS report WITH (priority = 1);

CREATE STREAM packets (
  ts TIMESTAMP, source STRING, target STRING, protocol STRING, port INT, length INT, flags STRING,
  WATERMARK FOR ts AS ts - INTERVAL 1 SECOND
) USING parquet OPTIONS (path 'in/packets');

CREATE STREAM logins (
  ts TIMESTAMP, address STRING, account STRING, success BOOLEAN,
  WATERMARK FOR ts AS ts - INTERVAL 1 SECOND
) USING parquet OPTIONS (path 'in/logins');

-- A Python function over Arrow arrays, in examples/intrusion_functions.py.
CREATE FUNCTION suspicion(port INT, length INT, flags STRING) RETURNS DOUBLE
AS 'intrusion_functions:suspicion' WITH (timeout = '5 seconds');

-- Packets that look like a probe.
CREATE QUERY probes CLASS critical AS
SELECT ts, source, target, port FROM packets
WHERE protocol = 'tcp' AND suspicion(port, length, flags) > 0.8;

-- Many different ports in two seconds: a scan.
CREATE QUERY scans CLASS critical INTO json OPTIONS (path 'out/scans') AS
SELECT window(ts, '2 seconds') AS w, source, count(DISTINCT port) AS ports, max(ts) AS ts
FROM probes GROUP BY window(ts, '2 seconds'), source HAVING count(DISTINCT port) > 10;

-- A failed login within a second of a probe from the same address: a join of two streams.
CREATE QUERY intrusions CLASS critical INTO json OPTIONS (path 'out/intrusions') AS
SELECT l.ts, l.address, l.account, p.target, p.port
FROM logins l JOIN probes p ON l.address = p.source
AND p.ts BETWEEN l.ts - INTERVAL 1 SECOND AND l.ts
WHERE NOT l.success;

CREATE QUERY traffic CLASS report INTO parquet OPTIONS (path 'out/traffic') AS
SELECT window(ts, '5 seconds') AS w, target, protocol, count(*) AS packets, sum(length) AS bytes
FROM packets GROUP BY window(ts, '5 seconds'), target, protocol;
