"""The SQL dialect: sqlglot's Spark dialect plus the statements that declare streams and queries.

It differs from sqlglot's Spark dialect in three ways. Function calls stay as they are written (sqlglot would
turn them into its own vocabulary and lose both the name and Spark's meaning). WINDOW is a plain name, so that
GROUP BY window(…) parses. Every node knows where it starts in the text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from headgate.sql import statements as st
from headgate.sql.errors import Script
from headgate.sql.select_syntax import SyntaxProblem
from headgate.sql.statement_syntax import HeadgateParser


class Headgate(Spark):
    """The dialect. sqlglot also knows it by its name, "headgate"."""

    class Tokenizer(Spark.Tokenizer):
        KEYWORDS = {k: v for k, v in Spark.Tokenizer.KEYWORDS.items() if k != "WINDOW"}  # noqa: RUF012
        STRING_ESCAPES = ["\\", "'", '"']  # noqa: RUF012 - Spark 4 reads 'it''s' as it's

    Parser = HeadgateParser


def parse(script: Script) -> Iterator[st.Statement]:
    """The statements of a script, one after the other; SqlError at the first that is malformed."""
    for tokens in _statements(script):
        yield _parsed(script, HeadgateParser.script_statement, tokens)


def parse_select(script: Script) -> exp.Expr:
    """A script that is one SELECT and nothing else."""
    chunks = _statements(script)
    if len(chunks) != 1:
        at = chunks[1][0].start if chunks else 0
        raise script.error("expected one SELECT", at)

    return cast(exp.Expr, _parsed(script, HeadgateParser.select_statement, chunks[0]))


def start(node: exp.Expr) -> int:
    """The offset in the text where a node starts; of one without a position, where the part around it does."""
    own = node.meta.get("start")
    if own is not None:
        return int(own)
    inside = [int(at) for n in node.walk() if (at := n.meta.get("start")) is not None]
    if inside or node.parent is None:
        return min(inside, default=0)
    return start(node.parent)


def _statements(script: Script) -> list[list[Token]]:
    """The tokens of each statement."""
    try:
        tokens = Headgate().tokenize(script.text)
    except TokenError as problem:
        raise script.error(*_token_problem(script, problem)) from None
    chunks: list[list[Token]] = [[]]
    for token in tokens:
        if token.token_type == TokenType.SEMICOLON:
            chunks.append([])
        else:
            before = chunks[-1][-1] if chunks[-1] else None
            if token.token_type == TokenType.FROM and before and before.token_type == TokenType.COMMA:
                raise script.error("a column is missing after this comma", before.start)  # sqlglot accepts it
            chunks[-1].append(token)
    return [chunk for chunk in chunks if chunk]


def _token_problem(script: Script, problem: TokenError) -> tuple[str, int]:
    """The message and place of a tokenizer error; for an open comment sqlglot gives no offset."""
    inner = str(problem.__cause__ or problem)
    words, _, offset = inner.rpartition(":")
    at = int(offset) if offset.isdigit() else max(script.text.rfind("/*"), 0)
    if inner.startswith("Missing "):
        return f"this is never closed: {words.removeprefix('Missing ').split(' ')[0]} is missing", at
    if offset.isdigit():
        return "this is not a number", at
    return "this comment is never closed: */ is missing", at


def _parsed(script: Script, method: Callable[[HeadgateParser], Any], tokens: list[Token]) -> Any:
    parser = HeadgateParser(dialect=Headgate(), error_level=ErrorLevel.IMMEDIATE)
    try:
        found = parser._parse(cast(Any, method), tokens, script.text)
    except SyntaxProblem as problem:
        raise script.error(problem.message, problem.offset) from None
    except RecursionError:
        raise script.error("this is nested too deeply", parser._here()) from None
    if not found:
        # sqlglot takes ELSE for the end of a block, and parses nothing.
        raise script.error(f"a statement cannot begin with {tokens[0].text}", tokens[0].start)
    return found[0]
