"""The command `reproduce`: listing, input errors, JSON output, plots."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from headgate import papers
from headgate.cli import reproduce
from headgate.cli.failures import InputError
from headgate.cli.main import app
from headgate.cli.outcome_text import show_outcomes
from headgate.cli.reproduce import run_one
from headgate.outcome import Outcome, Series
from headgate.papers.plots import draw


def test_the_list_names_every_experiment() -> None:
    result = CliRunner().invoke(app, ["reproduce", "--list"])
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.stdout.splitlines()] == list(papers.EXPERIMENTS)
    assert max(map(len, result.stdout.splitlines())) <= 80


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


def test_experiments_that_share_runs_are_grouped() -> None:
    groups = papers.together(list(papers.EXPERIMENTS))
    assert sorted(name for group in groups for name in group) == sorted(papers.EXPERIMENTS)
    by_name = {name: group for group in groups for name in group}
    assert by_name["amos-delay"] is by_name["amos-learners"]
    assert by_name["cqc-a"] == ["cqc-a"]


def test_wall_clock_experiments_run_last_and_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[tuple[str, int]] = []

    def one(name: str, seed: int, plots: Path | None) -> reproduce.Finding:
        ran.append((name, seed))
        return reproduce.Finding(name, seed, 0.0)

    monkeypatch.setattr(reproduce, "run_one", one)
    monkeypatch.setattr(reproduce.os, "cpu_count", lambda: 1)
    tasks = [("hmts-modes", 1), ("cqc-a", 1), ("hmts-modes", 2), ("cqc-a", 2)]
    assert len(list(reproduce._findings(tasks, None))) == 4
    assert ran == [("cqc-a", 1), ("cqc-a", 2), ("hmts-modes", 1), ("hmts-modes", 2)]


def test_the_text_fits_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    long = "a figure whose name is so long that it takes more than one line of a narrow terminal, as some do"
    measured = {long: [1.23456789] * 30, "group": {"a": {"b": 1.0}, "c": {"d": 2.0}}, "delay": {"fifo": 1.0}}
    outcome = Outcome("x", "test", "a claim " * 20, {long: 2.0}, measured, lambda paper, found: True, {})
    show_outcomes(Console(width=80), [outcome.json()])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert any("delay: fifo 1" in line for line in lines)
    assert lines[-1] == "1 of 1 hold"


def test_a_figure_has_all_panels(tmp_path: Path) -> None:
    series = [Series("a", [1, 2], [3, 4], panel="delay (s)"), Series("a", [1, 2], [5, 6], panel="rows")]
    outcome = Outcome("x", "test", "a claim", {}, {}, lambda paper, measured: True, {}, series, ("time (s)", ""))
    path = draw(outcome, tmp_path)
    assert path is not None
    assert path.read_bytes().startswith(b"\x89PNG")
    assert [s["label"] for s in outcome.json()["series"]] == ["delay (s): a", "rows: a"]


def test_an_outcome_without_series_is_not_plotted(tmp_path: Path) -> None:
    assert draw(Outcome("x", "test", "a claim", {}, {}, lambda paper, measured: True, {}), tmp_path) is None
