"""Parses the statements that change queries and objectives while the system runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot.tokenizer_core import TokenType

from headgate.sql import statements as st

if TYPE_CHECKING:
    from headgate.sql.statement_syntax import HeadgateParser


def alter(parser: HeadgateParser, at: int) -> st.AlterQuery:
    """What follows ALTER."""
    parser._need("QUERY", "QUERY and a name")
    name = parser._name("the name of the query")
    if parser._match_text_seq("RESET"):
        return st.AlterQuery(at, name, reset=_names(parser))
    parser._need("SET", "SET (option = value, …), SET CLASS c or RESET (option, …)")
    if parser._match_text_seq("CLASS"):
        return st.AlterQuery(at, name, cls=parser._name("the name of a class"))
    options = parser._options("SET")
    if not options:
        parser._refuse("there is nothing to set; write for example SET (latency = '200 ms')")
    return st.AlterQuery(at, name, options)


def pause(parser: HeadgateParser, at: int) -> st.PauseQuery:
    """What follows PAUSE."""
    name = _query(parser)
    keep = True
    if parser._curr:
        keep = bool(parser._match_text_seq("KEEP"))
        if not keep:
            parser._need("DROP", "KEEP ROWS, DROP ROWS or the end of the statement")
        parser._need("ROWS", "ROWS")
    return st.PauseQuery(at, name, keep)


def resume(parser: HeadgateParser, at: int) -> st.ResumeQuery:
    """What follows RESUME."""
    return st.ResumeQuery(at, _query(parser))


def stop(parser: HeadgateParser, at: int) -> st.StopQuery:
    """What follows STOP."""
    return st.StopQuery(at, _query(parser))


STATEMENTS = {"PAUSE": pause, "RESUME": resume, "STOP": stop}


def moment(parser: HeadgateParser, before: st.Moment | None, word: str) -> st.Moment:
    """What follows START or STOP in CREATE QUERY."""
    if before is not None:
        parser._refuse(f"a query has one {word} AT", parser._prev)
    parser._need("AT", "AT and a time")
    at = parser._here()
    return st.Moment(parser._string("a time such as '2030-01-31 18:00:00'"), at)


def _query(parser: HeadgateParser) -> st.Name:
    parser._need("QUERY", "QUERY and a name")
    return parser._name("the name of the query")


def objectives(parser: HeadgateParser, at: int) -> st.SetObjectives:
    """What follows SET OBJECTIVES."""
    return st.SetObjectives(at, parser._options("OBJECTIVES"))


def _names(parser: HeadgateParser) -> tuple[st.Name, ...]:
    parser._need("(", "( after RESET")
    names = [parser._name("an option")]
    while parser._match(TokenType.COMMA):
        names.append(parser._name("an option"))
    parser._need(")", ") after the options")
    return tuple(names)
