-- The tour: sensors in a forest, 21 queries in three classes. `sent` of an answer is the time from which the
-- newest row behind it can be read. Plain Structured Streaming runs the same SELECTs.

CREATE CLASS critical WITH (priority = 6);
CREATE CLASS dashboard WITH (priority = 3);
CREATE CLASS report WITH (priority = 1);

-- Simulates how a fire spreads: too costly for every reading of a burst.
CREATE FUNCTION spread(temperature INT, humidity INT, scenario DOUBLE) RETURNS DOUBLE
AS 'headgate.tour.functions:spread';
-- A user function with a bug.
CREATE FUNCTION fahrenheit(temperature INT) RETURNS DOUBLE AS 'headgate.tour.functions:fahrenheit';

CREATE QUERY fire CLASS critical AS
SELECT sent, location, temperature FROM sensors WHERE temperature > 35 AND humidity < 20;
CREATE QUERY smoke CLASS critical AS
SELECT sent, location, smoke FROM sensors WHERE smoke > 0.7;
CREATE QUERY smouldering CLASS critical AS
SELECT sent, location, smoke, temperature FROM sensors WHERE smoke > 0.5 AND temperature > 30;
CREATE QUERY wildfire CLASS critical AS
SELECT greatest(s.sent, w.sent) AS sent, s.location, s.temperature, w.wind
FROM sensors s JOIN weather w ON s.location = w.location AND w.ts BETWEEN s.ts - INTERVAL 1 SECOND AND s.ts
WHERE s.temperature > 45 AND s.humidity < 15 AND w.wind > 15;
CREATE QUERY gale CLASS critical AS
SELECT sent, location, wind FROM weather WHERE wind > 25;
CREATE QUERY heat CLASS critical AS
SELECT window(ts, '1 second') AS w, location, max(temperature) AS t, max(sent) AS sent FROM sensors
WHERE temperature > 35 GROUP BY window(ts, '1 second'), location;
CREATE QUERY drought CLASS critical AS
SELECT sent, location, humidity FROM sensors WHERE humidity < 12 AND temperature > 30;

CREATE QUERY climate CLASS dashboard AS
SELECT window(ts, '2 seconds') AS w, location, avg(temperature) AS t, avg(humidity) AS h, max(sent) AS sent
FROM sensors GROUP BY window(ts, '2 seconds'), location;
CREATE QUERY moving_climate CLASS dashboard AS
SELECT window(ts, '4 seconds', '1 second') AS w, location, avg(temperature) AS t, max(sent) AS sent
FROM sensors GROUP BY window(ts, '4 seconds', '1 second'), location;
CREATE QUERY air CLASS dashboard AS
SELECT window(ts, '2 seconds') AS w, max(smoke) AS worst, stddev(smoke) AS spread, max(sent) AS sent FROM sensors
GROUP BY window(ts, '2 seconds');
CREATE QUERY winds CLASS dashboard AS
SELECT window(ts, '2 seconds') AS w, location, avg(wind) AS wind, max(wind) AS gust, max(sent) AS sent
FROM weather GROUP BY window(ts, '2 seconds'), location;
CREATE QUERY rain CLASS dashboard AS
SELECT window(ts, '2 seconds') AS w, sum(rain) AS rain, max(sent) AS sent FROM weather GROUP BY window(ts, '2 seconds');
CREATE QUERY readings CLASS dashboard AS
SELECT location, count(*) AS readings, max(temperature) AS hottest, max(sent) AS sent FROM sensors GROUP BY location;
CREATE QUERY abroad CLASS dashboard AS
SELECT sent, location, fahrenheit(temperature) AS f FROM sensors WHERE temperature < 5;

CREATE QUERY risk_calm CLASS report AS
SELECT sent, location, spread(temperature, humidity, 0.0D) AS risk FROM sensors WHERE temperature >= 0;
CREATE QUERY risk_breeze CLASS report AS
SELECT sent, location, spread(temperature, humidity, 0.5D) AS risk FROM sensors WHERE temperature >= 0;
CREATE QUERY risk_wind CLASS report AS
SELECT sent, location, spread(temperature, humidity, 1.0D) AS risk FROM sensors WHERE temperature >= 0;
CREATE QUERY risk_gale CLASS report AS
SELECT sent, location, spread(temperature, humidity, 1.5D) AS risk FROM sensors WHERE temperature >= 0;
CREATE QUERY risk_storm CLASS report AS
SELECT sent, location, spread(temperature, humidity, 2.0D) AS risk FROM sensors WHERE temperature >= 0;
CREATE QUERY risk_hurricane CLASS report AS
SELECT sent, location, spread(temperature, humidity, 2.5D) AS risk FROM sensors WHERE temperature >= 0;
CREATE QUERY risk_by_place CLASS report AS
SELECT window(ts, '4 seconds') AS w, location, avg(spread(temperature, humidity, 3.0D)) AS risk, max(sent) AS sent
FROM sensors WHERE temperature >= 0 GROUP BY window(ts, '4 seconds'), location;
