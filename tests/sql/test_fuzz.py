"""Any script is accepted or refused with a position: never another error, never a hang."""

from __future__ import annotations

import random
import re

from hypothesis import given
from hypothesis import strategies as some

from headgate.sql import SqlError
from tests.sql.scripts import declared, wrong_scripts

RIGHT = [
    """CREATE CLASS slow WITH (priority = 1); CREATE TABLE t (a INT) USING csv OPTIONS (path 'x', header true);
       CREATE STREAM s (ts TIMESTAMP, a INT NOT NULL, d DECIMAL(10, 2), WATERMARK FOR ts AS ts - INTERVAL 1 MINUTE)
       USING json OPTIONS (path 'in'); CREATE FUNCTION f(a INT) RETURNS DOUBLE AS 'math:sqrt'; DROP QUERY fire""",
    "CREATE SPLIT OF sensors INTO hot WHEN temperature > 30, rest OTHERWISE; CREATE QUERY h AS SELECT * FROM hot",
    "CREATE QUERY q CLASS critical INTO console WITH (latency = '1 second', tolerance = 0.1) AS SELECT * FROM sensors",
    """CREATE QUERY q AS WITH a AS (SELECT window(ts, '10 seconds', '5 seconds') AS w, location, count(*) AS n,
       sum(temperature) FILTER (WHERE humidity > 3) AS s FROM sensors WHERE location LIKE 'a%' GROUP BY 1, 2
       HAVING count(DISTINCT humidity) > 1)
       SELECT w.start, n, CASE WHEN s > 1 THEN 'x' ELSE location END AS c FROM a""",
    """CREATE QUERY q AS SELECT s.ts, k.level, md5(s.location) AS h FROM sensors AS s LEFT JOIN smoke AS k
       ON s.location = k.location AND k.at BETWEEN s.ts - INTERVAL 5 SECONDS AND s.ts + INTERVAL '1:30' MINUTE TO SECOND
       WHERE s.temperature IN (1, 2, -3) AND NOT s.humidity IS NULL""",
    """CREATE QUERY q AS SELECT w, location FROM (SELECT *, row_number() OVER (PARTITION BY w ORDER BY n DESC) AS r
       FROM counts) WHERE r <= 3 AND location <> 'b'""",
    """CREATE QUERY q AS SELECT city, item.id + 1 AS i, item.tags[0], extra['a'] FROM clicks c
       JOIN places p ON c.user = p.location UNION ALL SELECT city, size, city, city FROM sensors s JOIN places p
       USING (location)""",
    """CREATE QUERY q AS SELECT session_window.start, location, max(temperature) AS m, risk(avg(humidity), 2) AS r
       FROM sensors GROUP BY session_window(ts, '5 minutes'), location""",
    "CREATE QUERY q AS SELECT DISTINCT ts, CAST(temperature AS DECIMAL(10, 2)) AS d, DATE '2024-02-29' FROM sensors",
    """CREATE QUERY most AS SELECT location, n FROM totals WHERE n > 1 ORDER BY n DESC, 1 LIMIT 3; CREATE QUERY q AS
       SELECT s.ts, s.location, t.n FROM sensors s LEFT JOIN most t ON s.location = t.location AND t.n > s.humidity""",
    """CREATE QUERY q AS SELECT location, place FROM (SELECT *, rank() OVER (PARTITION BY n ORDER BY location DESC)
       AS place FROM totals) WHERE place IN (1, 2) OR place <=> 4 AND location <> 'b'""",
]
SCRIPTS = RIGHT + [case.script for case in wrong_scripts()]
WORDS = sorted({word for script in SCRIPTS for word in re.findall(r"\w+|'[^']*'|[^\w\s]", script)})


def tokens(script: str) -> list[str]:
    return re.findall(r"\s+|\w+|'[^']*'|[^\w\s]", script)


def refused_or_accepted(script: str) -> None:
    refusal: SqlError | None = None
    try:
        declared().execute(script, "f.sql")
    except SqlError as error:
        refusal = error
    if refusal is None:
        return
    assert str(refusal) == f"f.sql:{refusal.line}:{refusal.column}: {refusal.message}"
    lines = script.split("\n")
    assert 1 <= refusal.line <= len(lines)
    assert 1 <= refusal.column <= len(lines[refusal.line - 1]) + 1
    assert refusal.message
    assert "<class" not in refusal.message
    assert "Token" not in refusal.message


def test_the_right_scripts_are_right() -> None:
    for script in RIGHT:
        declared().execute(script)


@given(some.sampled_from(SCRIPTS), some.integers(0, 2**32), some.integers(1, 4))
def test_changed_scripts(script: str, seed: int, changes: int) -> None:
    chance = random.Random(seed)
    words = tokens(script)
    for _ in range(changes):
        place = chance.randrange(len(words) + 1)
        action = chance.choice(("drop", "insert", "replace", "swap", "double"))
        if action == "insert" or place == len(words):
            words.insert(place, f" {chance.choice(WORDS)} ")
        elif action == "drop":
            del words[place]
        elif action == "replace":
            words[place] = chance.choice(WORDS)
        elif action == "double":
            words.insert(place, words[place])
        else:
            other = chance.randrange(len(words))
            words[place], words[other] = words[other], words[place]
        if not words:
            break
    refused_or_accepted("".join(words))


@given(some.text(max_size=60))
def test_any_text(text: str) -> None:
    refused_or_accepted(text)


@given(some.lists(some.sampled_from(WORDS), max_size=25))
def test_any_words(words: list[str]) -> None:
    refused_or_accepted("CREATE QUERY q AS SELECT " + " ".join(words))
