"""simulate: predictions, output files, and input errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headgate.cli.main import run
from headgate.cli.simulate import split_policies

FIRE = Path(__file__).parents[2] / "examples" / "fire.sql"


def headgate(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as done:
        run(["simulate", str(FIRE), *arguments])
    out, err = capsys.readouterr()
    return int(done.value.code or 0), out, err


def test_every_class_is_predicted_under_every_policy(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    predicted, figure = tmp_path / "out.json", tmp_path / "out.png"
    options = ("--rates", "sensors=300", "--seconds", "6", "--policies", "cqc:k=1ms,fifo")
    code, out, err = headgate(capsys, *options, "--json", str(predicted), "--plot", str(figure))
    assert (code, err) == (0, "")
    assert "cqc:k=1ms" in out
    assert "fifo" in out
    assert figure.stat().st_size > 10_000
    found = {row["policy"]: row for row in json.loads(predicted.read_text())}
    assert list(found) == ["cqc:k=1ms", "fifo"]
    for row in found.values():
        assert list(row["classes"]) == ["critical", "normal", "report"]
        critical = row["classes"]["critical"]
        assert 0 < critical["p50"] <= critical["p99"]
        assert 0 < row["load"] < 1
    # The same rows under every policy give the same number of results.
    assert len({row["classes"]["critical"]["results"] for row in found.values()}) == 1


def test_measured_costs_change_the_prediction(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    costs, predicted = tmp_path / "costs.json", tmp_path / "out.json"
    loads = []
    for cost in (1e-5, 4e-3):
        costs.write_text(json.dumps({"select": {"cost": cost}}))
        options = ("--rates", "sensors=300", "--seconds", "2", "--policies", "fifo", "--costs", str(costs))
        code, out, _ = headgate(capsys, *options, "--json", str(predicted))
        assert code == 0
        loads.append(json.loads(predicted.read_text())[0]["load"])
    assert loads[0] < 1 < loads[1]
    assert "fifo is overloaded" in out


def test_a_trace_replaces_rates(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace, predicted = tmp_path / "trace.csv", tmp_path / "out.json"
    trace.write_text("stream,time\n" + "".join(f"sensors,{n / 10}\n" for n in range(100)))
    code, _, _ = headgate(capsys, "--trace", str(trace), "--policies", "rr", "--json", str(predicted))
    assert code == 0
    assert json.loads(predicted.read_text())[0]["seconds"] == pytest.approx(9.9, abs=0.1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--rates", "sensors=-5"), "--rates: stream sensors has rate -5; give rows per second above zero"),
        (("--rates", "sensors=many"), "--rates: 'many' of stream sensors is not a number of rows per second"),
        (("--rates", "sensors"), "--rates: 'sensors' is not a rate"),
        (("--rates", "sensors=1,sensors=2"), "--rates: stream sensors is given twice"),
        (("--rates", "sensor=5"), "no query reads a stream 'sensor'; did you mean 'sensors'?"),
        (("--rates", "sensors=5", "--policies", "cqx"), "unknown policy 'cqx'; did you mean 'cqc'?"),
        (("--rates", "sensors=5", "--policies", ","), "--policies: no policy given"),
        (("--rates", "sensors=5", "--seconds", "0"), "--seconds: 0 is not above zero"),
        (("--rates", "sensors=5", "--costs", "no.json"), "no.json: no such file or directory"),
        (("--rates", "sensors=5", "--json", "no/such/out.json"), "no/such/out.json: no such file or directory"),
        (("--trace", "no.csv"), "no.csv: no such file or directory"),
        ((), "give either --rates stream=rows per second, or --trace FILE"),
    ],
)
def test_bad_input_is_one_clear_line(
    capsys: pytest.CaptureFixture[str], options: tuple[str, ...], message: str
) -> None:
    code, _, err = headgate(capsys, *options)
    assert code == 1
    assert err.startswith(message)
    assert err.count("\n") == 1


def test_invalid_json_of_costs_is_reported_with_its_position(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    costs = tmp_path / "costs.json"
    costs.write_text('{"select": }')
    code, _, err = headgate(capsys, "--rates", "sensors=5", "--costs", str(costs))
    assert (code, err) == (1, f"{costs}:1:12: not JSON: expecting value\n")


def test_parameters_stay_with_their_policy() -> None:
    assert split_policies("cqc:inner=chain(rows=1,quantum=1ms),k=1ms, rr ,fifo") == [
        "cqc:inner=chain(rows=1,quantum=1ms),k=1ms",
        "rr",
        "fifo",
    ]
