"""The generated tables of docs/papers.md: they are those of the stored results, and name every experiment."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from headgate.papers import EXPERIMENTS
from headgate.papers.report import KINDS, PAGE, RESULTS, merged, written

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def page() -> str:
    return (DOCS / PAGE).read_text(encoding="utf-8")


def outcome(name: str, seed: int, holds: bool, **measured: Any) -> dict[str, Any]:
    series = [{"label": "curve", "x": [1, 2], "y": [0.5, 0.25]}]
    paper = {"delay": 2.0}
    return {
        "name": name,
        "holds": holds,
        "paper": paper,
        "measured": measured,
        "series": series,
        "setup": {"seed": seed},
    }


def rows(block: str) -> list[str]:
    """The lines between the marks."""
    return block.splitlines()[1:-1]


def test_the_page_has_the_stored_results(page: str) -> None:
    """After new results: `python -m headgate.papers.report docs OUTCOMES.json`."""
    assert page == written(page, json.loads((DOCS / RESULTS).read_text(encoding="utf-8")))


def test_the_page_states_the_verdict_of_every_experiment(page: str) -> None:
    assert sorted(re.findall(r"<!-- verdict: (\S+) -->", page)) == sorted(EXPERIMENTS)


def test_every_block_is_closed(page: str) -> None:
    assert len(re.findall(rf"<!-- (?:{KINDS})\b", page)) == page.count("<!-- end -->")


def test_a_new_outcome_replaces_the_one_of_its_seed() -> None:
    results = merged({}, [outcome("cqc-a", 1, True), outcome("cqc-a", 2, True), outcome("gone", 1, True)])
    results = merged(results, [outcome("cqc-a", 1, False)])
    assert {seed: run["holds"] for seed, run in results["cqc-a"].items()} == {"1": False, "2": True}
    assert "gone" not in results


def test_verdicts_and_figures_over_several_seeds() -> None:
    outcomes = [outcome("cqc-a", seed, seed != 2, delay=seed / 8, ok=seed > 1) for seed in (1, 2, 77)]
    results = merged({}, outcomes)
    blocks = "<!-- verdict: cqc-a -->\n<!-- end -->\n<!-- figures: cqc-a: delay; ok -->\n<!-- end -->\n"
    found = written(blocks, results)
    assert "**Depends on the seed**: holds with seeds 1 and 77, not with seed 2." in found
    assert "| delay | 2 | 0.125 | 0.125 to 9.62 |" in found
    assert "| ok | – | no | 2 of 3 |" in found
    assert written(found, results) == found


def test_curves_and_groups() -> None:
    results = merged({}, [outcome("cqc-a", 1, True, first={"a": 1.0}, second={"a": 2.0, "b": 3.0})])
    found = written("<!-- columns: cqc-a: first; second -->\n<!-- end -->\n", results)
    assert found.splitlines()[1:-1] == [
        "|  | first | second |",
        "| --- | --- | --- |",
        "| a | 1 | 2 |",
        "| b | – | 3 |",
    ]
    found = written("<!-- matrix: cqc-a: first; second -->\n<!-- end -->\n", results)
    assert found.splitlines()[1:-1] == [
        "|  | a | b |",
        "| --- | --- | --- |",
        "| first | 1 | – |",
        "| second | 2 | 3 |",
    ]
    found = written("<!-- series: cqc-a -->\n<!-- end -->\n", results)
    assert rows(found) == ["|  | 1 | 2 |", "| --- | --- | --- |", "| curve | 0.5 | 0.25 |"]


def test_an_experiment_without_results_is_named_as_such() -> None:
    assert "Not run yet" in written("<!-- figures: cqc-a -->\nold\n<!-- end -->\n", {})
