"""Checks the options of streams, tables and sinks against what their connector declares."""

from __future__ import annotations

from collections.abc import Mapping

from headgate.graph.options import Declared, OptionSet
from headgate.graph.types import Schema
from headgate.sql.errors import Script, closest
from headgate.sql.statements import Name, Option


def checked(
    options: tuple[Option, ...], format_: Name, known: Mapping[str, Declared], what: str, script: Script
) -> tuple[str, dict[str, str]]:
    """The format and the options in their declared spelling. Spark checks the options of an undeclared format."""
    given = unique(options, script)
    connector = known.get(format_.text.lower())
    if connector is None:
        return format_.text, given
    declared = connector.options
    found = dict(_checked(option, connector.name, declared, what, script) for option in options)
    names = {name.lower() for name in found}
    for group in declared.needed():
        if not any(name.lower() in names for name in group):
            raise script.error(f"{what} {connector.name} needs the option {' or '.join(group)}", format_.at)
    return connector.name, found


def check_fit(
    connector: Declared,
    given: Mapping[str, str],
    options: tuple[Option, ...],
    format_: Name,
    schema: Schema,
    script: Script,
) -> None:
    """Refuses options that are each allowed but fit neither each other nor the columns."""
    problem = connector.problem(given, schema)
    if problem is not None:
        named = (problem.option or "").lower()
        at = next((option.value_at for option in options if option.key.text.lower() == named), format_.at)
        raise script.error(problem.message, at)


def unique(options: tuple[Option, ...], script: Script) -> dict[str, str]:
    """Options by name, each given once."""
    given: dict[str, str] = {}
    seen: set[str] = set()
    for option in options:
        if option.key.text.lower() in seen:
            raise script.error(f"option {option.key.text} is given twice", option.key.at)
        seen.add(option.key.text.lower())
        given[option.key.text] = option.value
    return given


def _checked(option: Option, format_: str, declared: OptionSet, what: str, script: Script) -> tuple[str, str]:
    key = option.key.text
    found = declared.find(key)
    if found is None:
        reason = declared.refusal(key)
        if reason is not None:
            raise script.error(f"{what} {format_} has no option {key}: {reason}", option.key.at)
        if declared.passed_on(key):
            return declared.spelled(key), option.value
        others = [*declared.names, *(name for group in declared.one_of for name in group)]
        raise script.error(f"{what} {format_} has no option {key}{closest(key, others)}", option.key.at)
    problem = found.problem(option.value)
    if problem is not None:
        raise script.error(problem, option.value_at)
    return found.name, found.canonical(option.value)
