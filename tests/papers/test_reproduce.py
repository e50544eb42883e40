"""The command `reproduce`: listing, input errors, JSON output, plots."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headgate import papers
from headgate.cli.failures import InputError
from headgate.cli.main import app
from headgate.cli.reproduce import run_one
from headgate.outcome import Outcome, Series
from headgate.papers.plots import draw


def test_the_list_names_every_experiment() -> None:
    result = CliRunner().invoke(app, ["reproduce", "--list"])
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.stdout.splitlines()] == list(papers.EXPERIMENTS)


def test_the_message_for_an_unknown_name_suggests_the_closest() -> None:
    result = CliRunner().invoke(app, ["reproduce", "amos-dealy"])
    assert isinstance(result.exception, InputError)
    assert str(result.exception) == "no experiment is called 'amos-dealy'; did you mean 'amos-delay'?"


def test_no_name_is_wrong_usage() -> None:
    assert CliRunner().invoke(app, ["reproduce"]).exit_code == 2


def test_an_output_path_that_cannot_be_written_is_refused_before_the_work(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["reproduce", "amos-example", "--json", str(tmp_path / "no" / "out.json")])
    assert isinstance(result.exception, InputError)
    assert "give a path that can be written" in str(result.exception)


def test_json_and_table(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    result = CliRunner().invoke(app, ["reproduce", "amos-example", "--json", str(out), "--seed", "7"])
    assert result.exit_code == 0, result.output
    [outcome] = json.loads(out.read_text(encoding="utf-8"))
    assert set(outcome) == {"name", "source", "claim", "paper", "measured", "holds", "series", "setup"}
    assert outcome["setup"]["seed"] == 7
    assert outcome["measured"].keys() == outcome["paper"].keys()
    assert "amos-example" in result.stdout


def test_a_failing_experiment_is_reported_and_does_not_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(papers, "EXPERIMENTS", {"broken": papers.Experiment("plots:draw", "not an experiment")})
    finding = run_one("broken", 1, None)
    assert finding.outcome is None
    assert "TypeError" in finding.failure


def test_a_figure_has_all_panels(tmp_path: Path) -> None:
    series = [Series("a", [1, 2], [3, 4], panel="delay (s)"), Series("a", [1, 2], [5, 6], panel="rows")]
    outcome = Outcome("x", "test", "a claim", {}, {}, lambda paper, measured: True, {}, series, ("time (s)", ""))
    path = draw(outcome, tmp_path)
    assert path is not None
    assert path.read_bytes().startswith(b"\x89PNG")
    assert [s["label"] for s in outcome.json()["series"]] == ["delay (s): a", "rows: a"]


def test_an_outcome_without_series_is_not_plotted(tmp_path: Path) -> None:
    assert draw(Outcome("x", "test", "a claim", {}, {}, lambda paper, measured: True, {}), tmp_path) is None
