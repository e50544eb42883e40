"""check, explain and bench: output, and exit codes on errors."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from headgate.cli.main import run

FIRE = Path(__file__).parents[2] / "examples" / "fire.sql"


def headgate(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Runs the command in this process: its exit code, output and error output."""
    with pytest.raises(SystemExit) as done:
        run(list(arguments))
    out, err = capsys.readouterr()
    return int(done.value.code or 0), out, err


def test_check_counts_the_declarations(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = headgate(capsys, "check", str(FIRE))
    assert (code, err) == (0, "")
    assert out == f"{FIRE}: ok (1 stream, 5 queries)\n"


def test_check_starts_no_jvm() -> None:
    """A script without Spark functions is checked without Spark."""
    program = (
        "import sys; sys.argv = ['headgate', 'check', sys.argv[1]]\n"
        "from headgate.cli.main import run\n"
        "try: run()\n"
        "except SystemExit as done: assert not done.code\n"
        "assert 'pyspark' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program, str(FIRE)], check=True, capture_output=True)


@pytest.mark.parametrize("command", ["check", "explain"])
def test_an_error_in_a_script_is_one_line_with_its_position(
    command: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    script = tmp_path / "wrong.sql"
    script.write_text(FIRE.read_text(encoding="utf-8").replace("temperature > 35 AND", "temprature > 35 AND", 1))
    code, out, err = headgate(capsys, command, str(script))
    assert (code, out) == (1, "")
    assert err.startswith(f"{script}:11:53: ")
    assert "temperature" in err
    assert err.count("\n") == 1


def test_debug_shows_the_traceback(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    script = tmp_path / "wrong.sql"
    script.write_text("CREATE NONSENSE")
    code, _, err = headgate(capsys, "--debug", "check", str(script))
    assert code == 1
    assert "Traceback" in err


def test_a_script_that_cannot_be_read(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, _, err = headgate(capsys, "check", str(tmp_path / "none.sql"))
    assert code == 1
    assert err == f"{tmp_path / 'none.sql'}: no such file or directory; give the path of a .sql file\n"
    (tmp_path / "latin.sql").write_bytes(b"-- \xe9")
    code, _, err = headgate(capsys, "check", str(tmp_path / "latin.sql"))
    assert code == 1
    assert "not UTF-8" in err


def test_a_script_may_begin_with_a_byte_order_mark(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    script = tmp_path / "marked.sql"
    script.write_text("CREATE CLASS fast WITH (priority = 2)", encoding="utf-8-sig")
    assert headgate(capsys, "check", str(script)) == (0, f"{script}: ok (0 streams, 0 queries)\n", "")


def test_wrong_usage_is_exit_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert headgate(capsys, "check")[0] == 2
    assert headgate(capsys, "nonsense")[0] == 2
    assert headgate(capsys, "explain", str(FIRE), "--format", "png")[0] == 2
    assert headgate(capsys, "bench")[0] == 2


def test_an_internal_error_is_exit_3(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(script: Path) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr("headgate.cli.script.load", broken)
    code, _, err = headgate(capsys, "check", str(FIRE))
    assert code == 3
    assert err == "headgate: internal error: RuntimeError: boom (headgate --debug … shows the traceback)\n"


def test_explain_shows_shared_operators(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = headgate(capsys, "explain", str(FIRE), "--policy", "chain")
    assert (code, err) == (0, "")
    assert "policy chain" in out.splitlines()[0]
    assert "select temperature > 35 AND humidity < 20" in out
    assert "2 queries: fire, fires_by_hour" in out


def test_explain_shows_where_queries_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    script = tmp_path / "fire.sql"
    total = "CREATE QUERY total INTO console AS SELECT count(*) AS n FROM sensors;"
    script.write_text(f"{FIRE.read_text()}\n{total}")
    code, out, err = headgate(capsys, "explain", str(script), "--replicas", "2")
    assert (code, err) == (0, "")
    assert "fire, dry_heat, climate, hottest/0, fires_by_hour, total/0" in out
    code, out, _ = headgate(capsys, "explain", str(script), "--replicas", "2", "--format", "json")
    placement = json.loads(out)["placement"]
    assert placement["replicas"] == 2
    assert placement["queries"]["climate"] is None
    assert (placement["queries"]["total/0"], placement["queries"]["total"]) == (None, 0)
    assert [each["route"] for each in placement["streams"]["sensors"]] == ["by location"]
    assert placement["streams"]["total/0"] == [{"route": "to replica 0", "queries": ["total"]}]


def test_explain_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = headgate(capsys, "explain", str(FIRE), "--format", "json")
    assert code == 0
    found = json.loads(out)
    assert [q["name"] for q in found["queries"]] == ["fire", "dry_heat", "climate", "hottest", "fires_by_hour"]
    operators = {o["number"]: o for o in found["operators"]}
    assert operators[0]["kind"] == "source"
    assert operators[0]["shared"]
    # Every operator except the source is in exactly one unit, and every unit has a turn.
    inside = [o for unit in found["units"] for o in unit["operators"]]
    assert sorted(inside) == sorted(operators.keys() - {0})
    assert sorted(unit["turn"] for unit in found["units"]) == list(range(1, len(found["units"]) + 1))
    critical = [unit["turn"] for unit in found["units"] if unit["class"] == "critical"]
    assert max(critical) == len(critical)


@pytest.mark.parametrize("policy", ["cqc", "rr", "fifo", "chain", "segment", "path", "hr", "hmts", "amos"])
def test_explain_under_each_policy(policy: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = headgate(capsys, "explain", str(FIRE), "--policy", policy, "--format", "json")
    assert (code, err) == (0, "")
    inside = {o for unit in json.loads(out)["units"] for o in unit["operators"]}
    assert inside == {o["number"] for o in json.loads(out)["operators"] if o["kind"] != "source"}


def test_explain_as_a_drawing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    drawing = tmp_path / "fire.svg"
    code, out, _ = headgate(capsys, "explain", str(FIRE), "--format", "svg", "-o", str(drawing))
    assert (code, out) == (0, "")
    root = ElementTree.parse(drawing).getroot()
    space = "{http://www.w3.org/2000/svg}"
    assert root.tag == f"{space}svg"
    texts = [t.text or "" for t in root.iter(f"{space}text")]
    assert {"fire", "climate", "hottest"} <= set(texts)
    shared = [r for r in root.iter(f"{space}rect") if r.get("class") == "box shared"]
    assert len(shared) == 3 + 1  # the three shared operators, and the legend


def test_explain_needs_a_known_policy_and_a_query(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, _, err = headgate(capsys, "explain", str(FIRE), "--policy", "chian")
    assert (code, err) == (1, "unknown policy 'chian'; did you mean 'chain'?\n")
    (tmp_path / "empty.sql").write_text("-- nothing\n")
    code, _, err = headgate(capsys, "explain", str(tmp_path / "empty.sql"))
    assert code == 1
    assert "no query is declared" in err


def test_bench_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = headgate(capsys, "bench", "--list")
    assert code == 0
    assert "operators" in out
    code, _, err = headgate(capsys, "bench", "operater")
    assert (code, err) == (1, "no bench is called 'operater'; did you mean 'operators'?\n")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("pace", "--set", "live=true"), "bench pace has no option live; it has none"),
        (("day", "--set", "live=perhaps"), "option live of bench day is perhaps; give a value as False"),
        (("objectives", "--set", "seeds=many"), "option seeds of bench objectives is many; give a value as 5"),
    ],
)
def test_options_of_benches_are_checked(capsys: pytest.CaptureFixture[str], given: tuple[str, ...], said: str) -> None:
    code, _, err = headgate(capsys, "bench", *given)
    assert code == 1
    assert said in err


def test_every_bench_can_be_run() -> None:
    from importlib import import_module

    from headgate.bench import BENCHES

    for name in BENCHES:
        assert callable(import_module(f"headgate.bench.{name.replace('-', '_')}").run)


def test_bench_shows_and_writes_outcomes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from headgate.outcome import Outcome

    found = Outcome(
        "five selections",
        "hand-written pyarrow.compute",
        "at most 1.3 times",
        {"ratio": 1.3},
        {"ratio": 1.12, "seconds": {"ours": {"cold": 2.5}, "theirs": 3.25}},
        lambda paper, measured: measured["ratio"] <= paper["ratio"],
        {"rows": 10_000},
    )
    monkeypatch.setattr("headgate.bench.run", lambda name, options: [found])
    code, out, _ = headgate(capsys, "bench", "operators", "--json", str(tmp_path / "b.json"))
    assert code == 0
    assert [line.split() for line in out.splitlines() if "goal" in line or "1.12" in line] == [
        ["goal", "here"],
        ["ratio", "1.3", "1.12"],
    ]
    assert "seconds:\n  ours: cold 2.5" in "\n".join(map(str.rstrip, out.splitlines()))
    assert "holds" in out
    written = json.loads((tmp_path / "b.json").read_text())
    assert written == [found.json()]
    code, _, err = headgate(capsys, "bench", "operators", "--json", str(tmp_path / "no" / "b.json"))
    assert (code, err) == (
        1,
        f"{tmp_path / 'no' / 'b.json'}: no such file or directory; give a path that can be written\n",
    )


def test_options_of_a_bench(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from headgate.bench import kafka

    given: dict[str, object] = {}

    def run(seconds: float = 20.0, sides: str = "a") -> list[object]:
        given.update(seconds=seconds, sides=sides)
        return []

    monkeypatch.setattr(kafka, "run", run)
    monkeypatch.setattr("headgate.spark.class_archive.make", lambda wait: None)
    assert headgate(capsys, "bench", "kafka", "--set", "seconds=2", "--set", "sides=b")[0] == 0
    assert given == {"seconds": 2.0, "sides": "b"}
    for wrong, said in (
        ("second=1", "bench kafka has no option second; its options are seconds=20.0, sides=a\n"),
        ("seconds=x", "option seconds of bench kafka is x; give a value as 20.0\n"),
    ):
        assert headgate(capsys, "bench", "kafka", "--set", wrong)[::2] == (1, said)
    assert headgate(capsys, "bench", "kafka", "--set", "seconds")[0] == 2


@pytest.mark.parametrize("form", ["text", "json", "svg"])
def test_explain_shows_no_password_of_a_database(capsys: pytest.CaptureFixture[str], tmp_path: Path, form: str) -> None:
    script = tmp_path / "secret.sql"
    script.write_text(
        """CREATE STREAM s (k STRING) USING rate;
        CREATE QUERY q INTO postgresql OPTIONS (url 'jdbc:postgresql://h/db?user=me&password=hunter-in-url',
        table 't', user 'me', password 'hunter-in-option') AS SELECT k FROM s"""
    )
    code, out, err = headgate(capsys, "explain", str(script), "--format", form)
    assert (code, err) == (0, "")
    assert "hunter" not in out
