"""The tour's figures, its rows on both sides, and its report, without Spark."""

from __future__ import annotations

import re
import time
import xml.dom.minidom
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from headgate.connectors.registry import connectors
from headgate.sql import Catalog
from headgate.tour.answers import Age, Answers, due
from headgate.tour.functions import POISON, fahrenheit, spread
from headgate.tour.outcome import SideOutcome, TourOutcome, text_table
from headgate.tour.places import FolderPlace, TopicPlace, TourPlace
from headgate.tour.plan import CLASSES, SEED, Timeline, declarations, make_feeder, script
from headgate.tour.report import html
from headgate.tour.sides import one_line
from headgate.tour.svg import ChartMark, Curve, chart
from tests.feeder.test_feeder import Kept

TIMELINE = Timeline(30.0, 1000.0, 6000.0)


def sent(*seconds: float) -> pa.Table:
    return pa.table({"sent": pa.array(seconds, pa.float64())})


def test_only_answers_to_rows_of_the_run_count(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = Answers()
    moment = [100.0]
    monkeypatch.setattr(time, "time", lambda: moment[0])
    answers.add("fire", sent(99.0))
    answers.began = 100.0
    moment[0] = 103.0
    answers.add("fire", sent(99.5, 101.0, 102.0))
    answers.add("smoke", sent())
    answers.ends = 103.5
    moment[0] = 104.0
    answers.add("fire", sent(103.0))
    assert answers.seen == {"fire"}
    assert answers.ages(["fire", "smoke"]) == Age(2, 1.5, pytest.approx(1.99))
    assert answers.ages(["smoke"]) == Age(0, None, None)
    assert answers.ages(["fire"], after=103.5) == Age(0, None, None)
    assert answers.during(["fire"], 1.5, 3.0) == Age(1, 1.0, 1.0)
    assert answers.curve(["fire"], 4.0, 1.0) == ([1.5, 2.5], [2.0, 1.0])
    assert answers.answer_counts("fire", 4.0, 1.0).tolist() == [0, 1, 1, 0]


def test_answers_that_are_overdue_count_with_the_age_that_they_have_reached() -> None:
    sides = [Answers(), Answers()]
    for side in sides:
        side.began = time.time() - 20.0
    sides[0].add("fire", sent(sides[0].began + 10.1))
    sides[1].add("fire", sent(*(sides[1].began + 10.1 + n for n in (0, 0, 2))))
    for side in sides:
        side.ends = side.began + 20.0
    owed = due(sides, ["fire"], 15.0)
    assert owed["fire"].sum() == 3
    slow, quick = (side.with_overdue(["fire", "gale"], owed, 15.0) for side in sides)
    assert (slow.count, slow.overdue, quick.count, quick.overdue) == (1, 2, 3, 0)
    # Given at 20.0 to a row of 10.1, not given to rows of 10.1 and 12.1.
    assert slow.mean == pytest.approx((9.9 + 9.75 + 7.75) / 3, abs=0.05)
    assert quick.mean == pytest.approx((9.9 + 9.9 + 7.9) / 3, abs=0.05)


def test_both_sides_get_the_same_rows() -> None:
    sides = []
    for folder in ("plain", "headgate"):
        feeder, kept = make_feeder(FolderPlace(folder), TIMELINE), Kept()
        feeder._target = kept
        feeder._event_start = 0.0
        # One side is slower than the other and gets larger batches.
        for moment in np.arange(0.1, 30.01, 1.0 if folder == "plain" else 3.7):
            feeder.advance(moment)
        feeder.advance(30.0)
        sides.append(kept)
    for stream in ("sensors", "weather"):
        one, two = (side.rows(stream).drop_columns("sent") for side in sides)
        assert one.equals(two)
    times = sides[0].rows("sensors")["ts"].cast(pa.int64()).to_numpy() / 1e6
    for start, end in TIMELINE.bursts:
        inside = ((times >= start + 0.2) & (times < end - 0.2)).sum() / (end - start - 0.4)
        assert inside == pytest.approx(6000.0, rel=0.1)
    poisoned = sides[0].rows("sensors").filter(pc.equal(sides[0].rows("sensors")["temperature"], POISON))
    assert poisoned.num_rows == 1
    assert poisoned["ts"][0].value / 1e6 == pytest.approx(TIMELINE.poison, abs=0.1)


@pytest.mark.parametrize("place", [FolderPlace("in"), TopicPlace("localhost:9092", "in.")], ids=["folders", "kafka"])
def test_there_are_seven_queries_in_each_class_and_all_say_when_their_rows_were_sent(place: TourPlace) -> None:
    head, queries = script()
    assert [query.cls for query in queries] == [cls for cls in CLASSES for _ in range(7)]
    catalog = Catalog(connectors=connectors())
    catalog.execute(head)
    for _, _, statement in declarations(place):
        catalog.execute(statement)
    for query in queries:
        made = catalog.query(query.name, query.select, query.cls, ())
        assert "sent" in made.schema.names


def test_the_functions() -> None:
    hot, mild = pa.array([45, 10]), pa.array([5, 90])
    risk = spread(hot, mild, pa.array([0.0, 0.0])).to_pylist()
    assert risk[0] > risk[1]
    assert fahrenheit(pa.array([0, 100])).to_pylist() == [32.0, 212.0]
    with pytest.raises(ValueError, match="below absolute zero"):
        fahrenheit(pa.array([POISON]))


@pytest.mark.parametrize(
    ("error", "line"),
    [
        ("query q failed: EvaluationError: [X] f failed: ValueError: too cold", "ValueError: too cold"),
        ("Traceback …\n  File x\nValueError: too cold\n\tat org.apache.spark", "ValueError: too cold"),
        ("it stopped", "it stopped"),
    ],
)
def test_an_error_in_one_line(error: str, line: str) -> None:
    assert one_line(error) == line


def outcome() -> TourOutcome:
    plain_ages = {"critical": Age(900, 8.0, 12.0, 100), "dashboard": Age(400, 9.0, 13.0), "report": Age(0, None, None)}
    our_ages = {"critical": Age(1000, 0.25, 0.5), "dashboard": Age(400, 1.0, 1.5), "report": Age(5000, 3.0, 6.0)}
    curve = ([0.5, 10.0, 29.5], [0.2, 2.0, 9.0])
    plain = SideOutcome("plain", 40_000, 0.02, plain_ages, dict.fromkeys(CLASSES, curve) | {"report": ([], [])}, {})
    ours = SideOutcome(
        "Headgate", 40_000, 0.01, our_ages, dict.fromkeys(CLASSES, curve), {"abroad": "ValueError: <cold> & dark"},
        [0.0, 10.0, 20.0], [0.0, 5000.0, 10.0], [0.0, 3e6, 1e5],
    )  # fmt: skip
    bursts = (Age(10, 0.9, 1.0), Age(10, 0.3, 0.4))
    about = {"machine": "2 cores", "rows": f"seed {SEED}"}
    return TourOutcome(TIMELINE, plain, ours, ("rr", "cqc"), bursts, 21, 3 << 20, 1 << 30, 0, about, ["0:10  burst"])


def test_the_table_is_computed_from_what_was_measured() -> None:
    rows = outcome().table()
    assert rows[1] == ["critical", "> 8.0 s", "> 12.0 s", "900", "250 ms", "500 ms", "1,000", "> 32.0"]
    assert rows[3] == ["report", "-", "-", "0", "3.0 s", "6.0 s", "5,000", "-"]
    assert max(map(len, text_table(rows))) <= 100
    assert max(map(len, outcome().summary())) <= 80
    notes = "\n".join(outcome().notes())
    assert "the same 40,000 rows" in notes
    assert "3 MiB waited in Headgate's queues (limit 1 GiB; nothing was spilled)" in notes
    assert "900 ms under rr, 300 ms after the change to cqc" in notes
    assert "query abroad failed (ValueError: <cold> & dark); the other 20 went on" in notes
    assert "owed 10% of the answers of class critical" in notes


def test_the_report_is_one_file_and_its_plots_are_well_formed() -> None:
    page = html(outcome())
    assert not re.search(r"(src|href)=|url\(|@import", page)
    assert "Class critical: more than 32 times faster" in page
    assert "ValueError: &lt;cold&gt; &amp; dark" in page
    plots = re.findall(r"<svg.*?</svg>", page, re.S)
    assert len(plots) == 3
    for plot in plots:
        xml.dom.minidom.parseString(plot)
    # Plain has no answers of class report: five curves instead of six.
    assert plots[0].count("<polyline") == 5


def test_the_report_of_a_run_without_answers() -> None:
    none = dict.fromkeys(CLASSES, Age(0, None, None))
    empty = dict.fromkeys(CLASSES, ([], []))
    made = outcome()
    page = html(
        replace(
            made,
            plain=replace(made.plain, ages=none, curves=empty),
            headgate=replace(made.headgate, ages=none, curves=empty, moments=[], waiting=[], queued=[]),
        )
    )
    assert "no answers to compare" in page


def test_a_chart_places_its_points() -> None:
    plot = chart("t", "u", [Curve("a", "a", [0.0, 30.0], [0.1, 10.0])], 30.0, [ChartMark(15.0, "m")], log=True)
    points = re.search(r'points="([^"]+)"', plot)
    assert points is not None
    (x0, y0), (x1, y1) = (map(float, pair.split(",")) for pair in points[1].split())
    assert (x0, x1) == (64.0, 640.0)
    assert (y0, y1) == (236.0, 16.0)
