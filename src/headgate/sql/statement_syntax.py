"""The syntax of the statements of a script: CREATE STREAM, CREATE QUERY, ALTER QUERY and all others."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from headgate.sql import control
from headgate.sql import statements as st
from headgate.sql.errors import closest
from headgate.sql.select_syntax import SelectParser

_CREATABLE = ("CLASS", "STREAM", "TABLE", "FUNCTION", "AGGREGATE", "QUERY", "SPLIT")


class HeadgateParser(SelectParser):
    """Parses one statement into one of `headgate.sql.statements`."""

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

    def _need(self, word: str, what: str) -> None:
        if not self._curr or self._curr.text.upper() != word:
            self._expected(what)
        self._advance()
