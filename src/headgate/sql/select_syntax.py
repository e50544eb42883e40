"""The syntax of SELECT and of expressions: sqlglot's Spark parser, corrected where Spark differs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, ClassVar, NoReturn

from sqlglot import exp
from sqlglot.errors import ParseError
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

# sqlglot logs syntax that it does not parse; such statements are refused here with a message.
logging.getLogger("sqlglot").setLevel(logging.ERROR)

_SPELLED = {"CAST", "TRY_CAST", "EXTRACT", "TRIM", "SUBSTRING", "SUBSTR", "POSITION", "OVERLAY"}

_INTERVAL_UNITS = frozenset(
    ("YEAR", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND", "NANOSECOND")
)

_BITWISE: tuple[tuple[TokenType, Any], ...] = (
    (TokenType.PIPE, exp.BitwiseOr),
    (TokenType.CARET, exp.BitwiseXor),
    (TokenType.AMP, exp.BitwiseAnd),
)

# Hints for the keywords of other systems.
_UNEXPECTED = {
    "&&": "unexpected &&; write AND",
    "EMIT": "EMIT is not needed: windows are emitted when they are complete, other groups when they change",
    "TUMBLING": "write GROUP BY window(ts, '1 minute')",
    "HOPPING": "write GROUP BY window(ts, '10 minutes', '5 minutes')",
}


class SyntaxProblem(ParseError):
    """A syntax error with its offset."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset


def _stamped(name: str) -> Callable[..., Any]:
    """The parser's method of that name; it also records on the parsed node where the node starts in the text."""

    def parse(self: SelectParser, *args: Any, **kwargs: Any) -> Any:
        token = self._curr
        node = getattr(SparkParser, name)(self, *args, **kwargs)
        if token and isinstance(node, exp.Expr) and "start" not in node.meta:
            node.meta["start"] = token.start
        return node

    return parse


class SelectParser(SparkParser):
    """Parses a SELECT; every node knows where it starts in the text."""

    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    FUNCTION_PARSERS = {k: v for k, v in SparkParser.FUNCTION_PARSERS.items() if k in _SPELLED}  # noqa: RUF012
    NO_PAREN_FUNCTION_PARSERS = {  # noqa: RUF012 - ANY is an aggregate here
        k: v for k, v in SparkParser.NO_PAREN_FUNCTION_PARSERS.items() if k in ("CASE", "IF")
    }
    ARRAY_CONSTRUCTORS: ClassVar[dict[str, Any]] = {}  # array(1, 2)[0] is an element, not a new array
    STRICT_CAST = True
    UNARY_PARSERS: ClassVar[dict[TokenType, Any]] = {
        **SparkParser.UNARY_PARSERS,
        TokenType.PLUS: lambda self: exp.Anonymous(this="positive", expressions=[self._parse_unary()]),
    }
    # In Spark || binds as + does, and & before ^ before |; sqlglot has all four on one level below +.
    TERM: ClassVar[dict[TokenType, Any]] = {**SparkParser.TERM, TokenType.DPIPE: exp.DPipe}

    _parse_expression = _stamped("_parse_expression")
    _parse_disjunction = _stamped("_parse_disjunction")
    _parse_unary = _stamped("_parse_unary")
    _parse_primary = _stamped("_parse_primary")
    _parse_lambda = _stamped("_parse_lambda")
    _parse_function = _stamped("_parse_function")
    _parse_column = _stamped("_parse_column")
    _parse_types = _stamped("_parse_types")
    _parse_select = _stamped("_parse_select")
    _parse_table = _stamped("_parse_table")
    _parse_join = _stamped("_parse_join")
    _parse_lateral = _stamped("_parse_lateral")
    _parse_group = _stamped("_parse_group")
    _parse_having = _stamped("_parse_having")
    _parse_order = _stamped("_parse_order")
    _parse_limit = _stamped("_parse_limit")
    _parse_ordered = _stamped("_parse_ordered")
    _parse_with = _stamped("_parse_with")
    _parse_cte = _stamped("_parse_cte")

    def select_statement(self) -> exp.Expr:
        """A SELECT and nothing else."""
        return self._select_text()[0]

    def _select_text(self) -> tuple[exp.Expr, str]:
        """A SELECT up to the end of the statement, and its text."""
        if not self._curr:
            self._expected("SELECT …")
        first = self._curr
        select = self._parse_set_operations(self._parse_select())
        select = self._parse_query_modifiers(select)
        if select is None or not isinstance(select, exp.Query):
            self._refuse(f"expected SELECT …, found {first.text}", first)
        if self._curr:
            hint = _UNEXPECTED.get(self._curr.text.upper())
            if hint is None and self._after_window():
                hint = "a WINDOW clause is not supported; write the window in OVER (…)"
            self._refuse(hint or f"unexpected {self._curr.text}")
        return select, self.sql[first.start : self._prev.end + 1]

    def _after_window(self) -> bool:
        """Whether the token before this one is WINDOW, written as a clause; in this dialect it is a plain name."""
        return bool(self._prev) and self._prev.text.upper() == "WINDOW"

    def _parse_bitwise(self) -> exp.Expr | None:
        return self._left_to_right(0)

    def _left_to_right(self, level: int) -> exp.Expr | None:
        """Bitwise operators of this precedence level and above; level 0 binds weakest."""
        if level == len(_BITWISE):
            return self._parse_shift()
        token, kind = _BITWISE[level]
        this = self._left_to_right(level + 1)
        while self._match(token):
            this = self.expression(kind(this=this, expression=self._left_to_right(level + 1)))
        return this

    def _parse_shift(self) -> exp.Expr | None:
        this = self._parse_term()
        while True:
            if self._match_pair(TokenType.LT, TokenType.LT):
                this = self.expression(exp.BitwiseLeftShift(this=this, expression=self._parse_term()))
            elif self._match_pair(TokenType.GT, TokenType.GT):
                this = self.expression(exp.BitwiseRightShift(this=this, expression=self._parse_term()))
            else:
                return this

    def _parse_interval(self, require_interval: bool = True, parse_function_unit: bool = True) -> Any:
        """INTERVAL 3 DAY 1 SECOND, INTERVAL '1 day' and INTERVAL '1:30' MINUTE TO SECOND, as Spark's grammar has them.

        Several numbers with units become one text. Other intervals are left to sqlglot, and refused by the binder.
        """
        index, first = self._index, self._curr
        if not self._match(TokenType.INTERVAL):
            return None
        found: list[tuple[str, str]] = []
        while (part := self._interval_part(bool(found))) is not None:
            found.append(part)
        if not found:
            self._retreat(index)
            node = super()._parse_interval(require_interval, parse_function_unit)
        elif len(found) > 1:
            text = " ".join(f"{number} {unit}" for number, unit in found)
            node = exp.Interval(this=exp.Literal.string(text))
        else:
            (number, unit) = found[0]
            node = exp.Interval(this=exp.Literal.string(number), unit=self._interval_unit(unit))
        if isinstance(node, exp.Expr):
            node.meta["start"] = first.start
        return node

    def _interval_part(self, unit_needed: bool) -> tuple[str, str] | None:
        """A number or text with its unit; only the first may go without one."""
        index = self._index
        sign = "-" if self._match(TokenType.DASH) else ""
        if not sign:
            self._match(TokenType.PLUS)
        token = self._curr
        if token and token.token_type in (TokenType.NUMBER, TokenType.STRING):
            self._advance()
            unit = self._curr.text.upper() if self._curr else ""
            if unit.removesuffix("S") in _INTERVAL_UNITS:
                self._advance()
                return _signed(sign, token.text), unit
            if token.token_type == TokenType.STRING and not unit_needed:
                return _signed(sign, token.text), ""
        self._retreat(index)
        return None

    def _interval_unit(self, unit: str) -> exp.Expr | None:
        if not unit or not self._match_text_seq("TO"):
            return exp.var(unit) if unit else None
        last = self._curr.text.upper() if self._curr else ""
        if last not in _INTERVAL_UNITS:
            self._expected("the last field of the interval, as in DAY TO SECOND")
        self._advance()
        return exp.IntervalSpan(this=exp.var(unit), expression=exp.var(last))

    def _parse_statement(self) -> Any:
        """The statement inside a WITH: sqlglot accepts any statement there, Headgate only a SELECT."""
        return self._parse_query_modifiers(self._parse_set_operations(self._parse_select()))

    def raise_error(self, message: str, token: Token | None = None) -> NoReturn:
        raise SyntaxProblem(_plain(message), token.start if token else self._here())

    def _here(self) -> int:
        if self._curr:
            return int(self._curr.start)
        return int(self._prev.end) + 1 if self._prev else 0

    def _expected(self, what: str) -> NoReturn:
        found = self._curr.text if self._curr else "the end of the statement"
        raise SyntaxProblem(f"expected {what}, found {found}", self._here())

    def _refuse(self, message: str, token: Token | None = None, offset: int | None = None) -> NoReturn:
        raise SyntaxProblem(message, offset if offset is not None else token.start if token else self._here())


def _signed(sign: str, text: str) -> str:
    """A text after a sign; two minuses cancel each other.

    >>> _signed("-", "3"), _signed("-", "-1 02")
    ('-3', '1 02')
    """
    body = text.strip()
    return body[1:] if sign and body.startswith("-") else sign + (body.removeprefix("+") if sign else text)


def _plain(message: str) -> str:
    """A message of sqlglot's about a syntax error, reworded."""
    if message.startswith("Invalid expression / Unexpected token"):
        return "this is not expected here"
    if message.startswith("Expecting "):
        return f"expected {message.removeprefix('Expecting ')}"
    if message.startswith("Expected table name"):
        return "expected the name of a stream, a table or a query"
    if message.startswith("Expected TYPE"):
        return "expected a type"
    if message.startswith("Required keyword"):
        return "something is missing here"
    first = message.split("<Token")[0].split("<class")[0].rstrip(" ,:")
    return first[:1].lower() + first[1:] if first else "this is malformed"
