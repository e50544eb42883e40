"""The SQL dialect: sqlglot's Spark dialect plus the statements that declare streams and queries.

It differs from sqlglot's Spark dialect in three ways. Function calls stay as they are written (sqlglot would
turn them into its own vocabulary and lose both the name and Spark's meaning). WINDOW is a plain name, so that
GROUP BY window(…) parses. Every node knows where it starts in the text.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NoReturn, cast

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel, ParseError, TokenError
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from headgate.sql import control
from headgate.sql import statements as st
from headgate.sql.errors import Script, closest

# sqlglot logs syntax that it does not parse; such statements are refused here with a message.
logging.getLogger("sqlglot").setLevel(logging.ERROR)

_SPELLED = {"CAST", "TRY_CAST", "EXTRACT", "TRIM", "SUBSTRING", "SUBSTR", "POSITION", "OVERLAY"}
_CREATABLE = ("CLASS", "STREAM", "TABLE", "FUNCTION", "AGGREGATE", "QUERY", "SPLIT")

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
    "EMIT": "EMIT is not needed: windows are put out when they are complete, other groups when they change",
    "TUMBLING": "write GROUP BY window(ts, '1 minute')",
    "HOPPING": "write GROUP BY window(ts, '10 minutes', '5 minutes')",
}


class _Problem(ParseError):
    """A syntax error with its offset."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset


def _stamped(name: str) -> Callable[..., Any]:
    """The parser's method of that name; it also records on the parsed node where the node starts in the text."""

    def parse(self: HeadgateParser, *args: Any, **kwargs: Any) -> Any:
        token = self._curr
        node = getattr(SparkParser, name)(self, *args, **kwargs)
        if token and isinstance(node, exp.Expr) and "start" not in node.meta:
            node.meta["start"] = token.start
        return node

    return parse


class HeadgateParser(SparkParser):
    """Parses one statement into one of `headgate.sql.statements`."""

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

    def raise_error(self, message: str, token: Token | None = None) -> NoReturn:
        raise _Problem(_plain(message), token.start if token else self._here())

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

        Several numbers with units become one text. What is no constant is left to sqlglot, and refused by the binder.
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

    def script_statement(self) -> st.Statement:
        """One of the statements of a script."""
        first = self._curr
        if self._match(TokenType.CREATE):
            return self._statement_create(first.start)
        if self._match(TokenType.DROP):
            return self._statement_drop(first.start)
        if self._match(TokenType.SET):
            return self._statement_set(first.start)
        if self._match(TokenType.ALTER):
            return self._whole(control.alter(self, first.start))
        word = first.text.upper()
        if word in control.STATEMENTS:
            self._advance()
            return self._whole(control.STATEMENTS[word](self, first.start))
        if first.token_type in (TokenType.SELECT, TokenType.WITH, TokenType.L_PAREN, TokenType.VALUES, TokenType.FROM):
            self._refuse("a SELECT needs a name here: write CREATE QUERY name AS SELECT …")
        return self._refuse(
            f"unknown statement {first.text}; there are CREATE, ALTER, PAUSE, RESUME, STOP, DROP and SET"
        )

    def select_statement(self) -> exp.Expr:
        """A SELECT and nothing else."""
        return self._select_text()[0]

    # -- statements

    def _statement_create(self, at: int) -> st.Statement:
        if self._match_text_seq("OR", "REPLACE"):
            self._refuse("OR REPLACE is not supported: DROP QUERY name first", self._prev)
        word = self._curr.text.upper() if self._curr else ""
        if word not in _CREATABLE:
            if not word:
                self._refuse("CREATE what? There are CLASS, STREAM, TABLE, FUNCTION, AGGREGATE, QUERY and SPLIT")
            self._refuse(f"cannot create {self._curr.text}{closest(word, _CREATABLE)}")
        self._advance()
        if self._curr and self._curr.text.upper() == "IF" and self._next and self._next.text.upper() == "NOT":
            self._refuse("IF NOT EXISTS is not supported: each name is declared once in a script")
        make: dict[str, Callable[[int], st.Statement]] = {
            "CLASS": self._create_class,
            "STREAM": self._create_stream,
            "TABLE": self._create_table,
            "FUNCTION": lambda at: self._create_function(at, st.CreateFunction, "function"),
            "AGGREGATE": lambda at: self._create_function(at, st.CreateAggregate, "aggregate"),
            "QUERY": self._create_query,
            "SPLIT": self._create_split,
        }
        return make[word](at)

    def _create_class(self, at: int) -> st.CreateClass:
        name = self._name("the name of the class")
        self._need("WITH", "WITH (priority = n)")
        return st.CreateClass(at, name, self._options("WITH"))

    def _create_stream(self, at: int) -> st.CreateStream:
        name = self._name("the name of the stream")
        columns, watermark = self._columns(name, "stream")
        self._need("USING", "USING and a format, for example USING kafka OPTIONS (…)")
        format_, options = self._name("a format"), self._optional_options()
        settings = self._options("WITH") if self._match_text_seq("WITH") else ()
        return st.CreateStream(at, name, columns, watermark, format_, options, settings)

    def _create_table(self, at: int) -> st.CreateTable:
        name = self._name("the name of the table")
        columns, watermark = self._columns(name, "table")
        if watermark is not None:
            self._refuse("a table has no watermark: its rows have no order in time", offset=watermark.column.at)
        self._need("USING", "USING and a format, for example USING parquet OPTIONS (path '…')")
        format_, options = self._name("a format"), self._optional_options()
        every: st.Option | None = None
        on_change: int | None = None
        while self._match_text_seq("REFRESH"):
            place = self._here()
            if on_change is None and self._match_text_seq("ON", "CHANGE"):
                on_change = place
            elif every is None and self._match_text_seq("EVERY"):
                value_at = self._here()
                every = st.Option(
                    st.Name("every", place), self._string("a duration, for example '10 minutes'"), value_at
                )
            else:
                self._expected("EVERY 'duration' or ON CHANGE")
        return st.CreateTable(at, name, columns, format_, options, every, on_change)

    def _create_function(self, at: int, make: type[st.CreateFunction], kind: str) -> st.CreateFunction:
        name = self._name(f"the name of the {kind}")
        target_text = f"'module:{'Class' if kind == 'aggregate' else 'function'}'"
        self._need("(", "the parameters in parentheses")
        parameters: list[st.ColumnDeclaration] = []
        if not self._match(TokenType.R_PAREN):
            parameters.append(self._column("parameter"))
            while self._match(TokenType.COMMA):
                parameters.append(self._column("parameter"))
            self._need(")", ") after the parameters")
        self._need("RETURNS", "RETURNS and a type")
        returns_at = self._here()
        returns = self._type(f"the {kind}")
        self._need("AS", f"AS {target_text}")
        target_at = self._here()
        target = self._string(target_text)
        options = self._options("WITH") if self._match_text_seq("WITH") else ()
        if self._curr:
            self._expected("WITH (timeout = '5 seconds') or the end of the statement")
        return make(at, name, tuple(parameters), returns, returns_at, target, target_at, options)

    def _create_split(self, at: int) -> st.CreateSplit:
        self._need("OF", "OF and a stream: CREATE SPLIT OF s INTO a WHEN …, b OTHERWISE")
        source = self._name("the stream to split")
        self._need("INTO", "INTO name WHEN condition, …, name OTHERWISE")
        branches = [self._branch()]
        while self._match(TokenType.COMMA):
            branches.append(self._branch())
        return st.CreateSplit(at, source, tuple(branches))

    def _branch(self) -> st.Branch:
        name = self._name("the name of a branch")
        if self._match_text_seq("OTHERWISE"):
            return st.Branch(name, None)
        self._need("WHEN", "WHEN condition or OTHERWISE")
        return st.Branch(name, self._condition())

    def _create_query(self, at: int) -> st.CreateQuery:
        name = self._name("the name of the query")
        cls: st.Name | None = None
        sinks: list[st.Into] = []
        spec: tuple[st.Option, ...] = ()
        start_at: st.Moment | None = None
        stop_at: st.Moment | None = None
        once = False
        while True:
            if self._match_text_seq("CLASS"):
                if cls is not None:
                    self._refuse("a query is in one class", self._prev)
                cls = self._name("the name of a class")
            elif self._match_text_seq("INTO"):
                sinks.append(st.Into(self._name("a format"), self._optional_options()))
            elif self._match_text_seq("WITH"):
                if spec:
                    self._refuse("a query has one WITH clause", self._prev)
                spec = self._options("WITH")
            elif self._match_text_seq("START"):
                start_at = control.moment(self, start_at, "START")
            elif self._match_text_seq("STOP"):
                stop_at = control.moment(self, stop_at, "STOP")
            elif self._match_text_seq("ONCE"):
                once = True
            elif self._match(TokenType.ALIAS):
                break
            else:
                self._expected("CLASS, START AT, STOP AT, ONCE, INTO, WITH or AS SELECT …")
        return st.CreateQuery(at, name, cls, tuple(sinks), spec, *self._select_text(), start_at, stop_at, once)

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

    def _statement_drop(self, at: int) -> st.DropQuery:
        word = self._curr.text.upper() if self._curr else ""
        if word in _CREATABLE and word != "QUERY":
            self._refuse(f"only a query can be dropped, not a{'n'[: word[0] in 'A']} {word.lower()}")
        self._need("QUERY", "QUERY and a name")
        if_exists = bool(self._match_text_seq("IF", "EXISTS"))
        return st.DropQuery(at, self._name("the name of the query"), if_exists)

    def _whole(self, statement: st.Statement) -> st.Statement:
        """A statement that nothing follows."""
        if self._curr:
            self._expected("the end of the statement")
        return statement

    def _statement_set(self, at: int) -> st.Statement:
        if self._match_text_seq("OBJECTIVES"):
            return self._whole(control.objectives(self, at))
        if not self._match_text_seq("TIME", "ZONE"):
            self._refuse("there are SET OBJECTIVES (…) and SET TIME ZONE 'zone'; all else is an option of the command")
        zone_at = self._here()
        return st.SetTimeZone(at, self._string("a time zone such as 'Europe/Berlin'"), zone_at)

    # -- parts of statements

    def _columns(self, name: st.Name, what: str) -> tuple[tuple[st.ColumnDeclaration, ...], st.WatermarkClause | None]:
        if not self._match(TokenType.L_PAREN):
            self._expected(f"the columns of {what} {name.text} in parentheses")
        columns: list[st.ColumnDeclaration] = []
        watermark: st.WatermarkClause | None = None
        while True:
            if self._match_text_seq("WATERMARK", "FOR"):
                if watermark is not None:
                    self._refuse("a stream has one watermark", self._prev)
                column = self._name("the event time column")
                self._need("AS", "AS column - INTERVAL …")
                watermark = st.WatermarkClause(column, self._condition())
            else:
                columns.append(self._column("column"))
            if not self._match(TokenType.COMMA):
                break
        self._need(")", ", or ) after a column")
        return tuple(columns), watermark

    def _column(self, what: str) -> st.ColumnDeclaration:
        name = self._name(f"the name of a {what}")
        type_at = self._here()
        type_ = self._type(f"{what} {name.text}")
        nullable = not self._match_text_seq("NOT", "NULL")
        if self._match_text_seq("COMMENT"):
            self._string("a comment")
        return st.ColumnDeclaration(name, type_, type_at, nullable)

    def _type(self, what: str) -> exp.DataType:
        token = self._curr
        if not token:
            self._expected(f"the type of {what}")
        parsed = self._parse_types(schema=True, allow_identifiers=False)
        if not isinstance(parsed, exp.DataType):
            self._refuse(f"{token.text} is not a type", token)
        return parsed

    def _condition(self) -> exp.Expr:
        if not self._curr:
            self._expected("an expression")
        token = self._curr
        parsed = self._parse_disjunction()
        if parsed is None:
            self._refuse(f"expected an expression, found {token.text}", token)
        return parsed  # type: ignore[no-any-return]

    def _optional_options(self) -> tuple[st.Option, ...]:
        return self._options("OPTIONS") if self._match_text_seq("OPTIONS") else ()

    def _options(self, word: str) -> tuple[st.Option, ...]:
        self._need("(", f"( after {word}")
        options: list[st.Option] = []
        while not self._match(TokenType.R_PAREN):
            if options:
                self._need(",", ", or ) in the options")
            options.append(self._option())
        return tuple(options)

    def _option(self) -> st.Option:
        at = self._here()
        if self._curr and self._curr.token_type == TokenType.STRING:
            key = self._string("an option")
        else:
            key = self._name("an option").text
            while self._match(TokenType.DOT):
                key += "." + self._name("the rest of the option").text
        self._match(TokenType.EQ)
        value_at = self._here()
        sign = "-" if self._match(TokenType.DASH) else ""
        token = self._curr
        if not token or token.token_type in (TokenType.COMMA, TokenType.R_PAREN):
            self._expected(f"the value of option {key}")
        value = token.text.lower() if token.token_type in (TokenType.TRUE, TokenType.FALSE) else token.text
        self._advance()
        return st.Option(st.Name(key, at), sign + value, value_at)

    def _name(self, what: str) -> st.Name:
        token = self._curr
        if not token or token.token_type == TokenType.STRING:
            self._expected(what)
        parsed = self._parse_id_var(any_token=False)
        if not isinstance(parsed, exp.Identifier) or not parsed.name:
            self._expected(what)
        return st.Name(parsed.name, token.start)

    def _string(self, what: str) -> str:
        token = self._curr
        if not token or token.token_type != TokenType.STRING:
            self._expected(what)
        self._advance()
        return str(token.text)

    def _here(self) -> int:
        if self._curr:
            return int(self._curr.start)
        return int(self._prev.end) + 1 if self._prev else 0

    def _need(self, word: str, what: str) -> None:
        if not self._curr or self._curr.text.upper() != word:
            self._expected(what)
        self._advance()

    def _expected(self, what: str) -> NoReturn:
        found = self._curr.text if self._curr else "the end of the statement"
        raise _Problem(f"expected {what}, found {found}", self._here())

    def _refuse(self, message: str, token: Token | None = None, offset: int | None = None) -> NoReturn:
        raise _Problem(message, offset if offset is not None else token.start if token else self._here())


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
    """The offset in the text where a node starts."""
    own = node.meta.get("start")
    if own is not None:
        return int(own)
    inside = [int(at) for n in node.walk() if (at := n.meta.get("start")) is not None]
    return min(inside, default=0)


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
        return parser._parse(cast(Any, method), tokens, script.text)[0]
    except _Problem as problem:
        raise script.error(problem.message, problem.offset) from None
    except RecursionError:
        raise script.error("this is nested too deeply", parser._here()) from None


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
