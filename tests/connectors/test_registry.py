"""The registry finds every connector of the package, and the documentation is what they declare."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.connectors.contract import Connector, ResultSink, StreamSource
from headgate.connectors.page import page
from headgate.connectors.registry import sinks, sources, tables
from headgate.connectors.spark_format import SparkFormatSink
from headgate.graph.options import OptionDeclaration

PAGE = Path(__file__).parents[2] / "docs" / "connectors.md"
ALL: list[Connector] = [*sources().values(), *tables().values(), *sinks().values()]


WHOLE_FILES = ("delta", "iceberg")
"""Their guarantees name a file of tests that share their code."""


@pytest.mark.parametrize(
    "connector",
    [*sources().values(), *sinks().values(), SparkFormatSink("xml")],
    ids=lambda each: type(each).__name__,
)
def test_every_guarantee_names_a_test(connector: StreamSource | ResultSink) -> None:
    file, _, name = connector.guarantee.test.partition("::")
    text = (Path(__file__).parents[2] / file).read_text()
    if connector.name in WHOLE_FILES:
        return
    assert name
    assert f"def {name}(" in text
    # It mentions what it shows: by its name, or by all sources or sinks of its kind.
    shown = connector.name or "xml"
    assert shown in text.lower()


def test_the_page_is_current() -> None:
    command = "python -m headgate.connectors.page > docs/connectors.md"
    assert PAGE.read_text(encoding="utf-8") == page(), f"docs/connectors.md is not current; run {command}"


def test_what_is_there() -> None:
    assert {"kafka", "json", "csv", "parquet", "orc", "text", "rate", "rate-micro-batch", "socket"} <= set(sources())
    assert {"json", "csv", "parquet", "orc", "text"} <= set(tables())
    assert {"kafka", "json", "csv", "parquet", "orc", "text", "console", "memory", "noop", "callback"} <= set(sinks())


@pytest.mark.parametrize("connector", ALL, ids=lambda connector: type(connector).__name__)
def test_declarations_are_complete(connector: Connector) -> None:
    assert connector.about
    names = [option.name.lower() for option in connector.options.declared]
    assert len(set(names)) == len(names)
    assert not set(names) & {name.lower() for name in connector.options.refused}
    assert all(option.about for option in connector.options.declared)
    for option in connector.options.declared:
        if option.default is not None:
            assert option.problem(option.default) is None or option.default == "" or option.name == "emptyValue"
    for group in connector.options.one_of:
        assert all(connector.options.find(name) or connector.options.passed_on(name) for name in group)


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("integer", ["0", "12"], ["-1", "1.5", "", "x", "9" * 30]),
        ("boolean", ["true", "False"], ["yes", "1", ""]),
        ("time", ["90s", "1min", "500"], ["1 hour", "-1s", "soon", ""]),
        ("character", ["x", ""], ["xy"]),
        ("length", ["true", "false", "12"], ["-1", "short", ""]),
        ("text", ["", "anything"], []),
    ],
)
def test_values_by_type(kind: str, good: list[str], bad: list[str]) -> None:
    option = OptionDeclaration("o", "", kind)  # type: ignore[arg-type]
    assert [option.problem(value) for value in good] == [None] * len(good)
    assert all(str(option.problem(value)).startswith("o is ") for value in bad)


def test_choices_are_found_without_regard_to_case() -> None:
    option = OptionDeclaration("mode", "", choices=("PERMISSIVE", "FAILFAST"))
    assert option.problem("failfast") is None
    assert option.canonical("failfast") == "FAILFAST"
    assert option.problem("x") == "mode is x; it may be PERMISSIVE, FAILFAST"
