"""What a statement from the network may name: paths, Python functions, formats and options.

The administrator allows them when starting the server. Statements are checked after parsing and before binding, since
binding imports functions and lets Spark analyse expressions, which evaluates constants.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from glob import glob
from itertools import pairwise

from sqlglot.tokenizer_core import TokenType

from headgate.connectors.registry import connectors
from headgate.graph.options import Declared
from headgate.graph.secrets import has_literal, referenced
from headgate.sql import statements as st
from headgate.sql.dialect import Headgate, parse
from headgate.sql.errors import Script

FORMATS = frozenset(
    "console csv delta iceberg json kafka memory noop orc parquet rate rate-micro-batch socket text".split()  # noqa: SIM905
)
"""Formats that are allowed by default: their options are declared, and options that are paths are checked here."""

_FUNCTIONS = {
    **dict.fromkeys(("reflect", "java_method", "try_reflect"), "calls Java methods"),
    **dict.fromkeys(("from_protobuf", "to_protobuf"), "loads Java classes or reads files"),
    **dict.fromkeys(("from_xml", "schema_of_xml"), "may read files"),
    "python_worker_logs": "reads the server's logs",
}
"""Spark functions that access more than their arguments, and what they do."""

_DESTRUCTIVE = frozenset(("cleansource",))
"""Declared options that must be allowed by name: they move or delete the files that are read."""

_PATH_NAME = re.compile(r"path|dir|folder|location|file|root", re.IGNORECASE)
_NO_PATHS = frozenset(("pathglobfilter", "maxfileage", "cleansource"))
"""Options whose name looks like that of a path, but whose value is not a path."""

VARIABLES = "HEADGATE_SECRET_"
"""Prefix of the environment variables that statements may name."""

_GLOB = re.compile(r"[*?\[\]]")


@dataclass(frozen=True)
class StatementPermissions:
    """What the administrator allowed when starting the server.

    - `paths`: folders (or URIs) below which statements may read and write
    - `functions`: modules whose functions statements may call, including submodules
    - `formats`: further formats of sources, tables and sinks
    - `options`: further options, as patterns: `kafka.*`
    - `protected`: folders that are never read or written: the checkpoint

    >>> StatementPermissions(paths=("/data",)).path_problem("/data/../etc/passwd")
    '/data/../etc/passwd has a part ..; write the path without it'
    """

    paths: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    protected: tuple[str, ...] = field(default=())

    def check(self, text: str, file: str = "statement") -> list[st.Statement]:
        """The statements of a text; SqlError at the first that is malformed or names something that is not allowed."""
        script = Script(text, file)
        try:
            statements = list(parse(script))
        except RecursionError:
            raise script.error("this script is nested too deeply", 0) from None
        self._check_calls(script)
        for statement in statements:
            for problem, at in self._problems(statement):
                raise script.error(problem, at)
        return statements

    def path_problem(self, path: str) -> str | None:
        """Why a path or URI is refused, or None."""
        if not path or not path.isprintable() or "\\" in path or "{" in path or "%" in path:
            return f"{path or 'an empty path'} is not allowed here; write a plain path"
        if ".." in path.split("/"):
            return f"{path} has a part ..; write the path without it"
        if ":" in path:
            uris = [allowed.rstrip("/") for allowed in self.paths if "://" in allowed]
            inside = any(path == uri or path.startswith(f"{uri}/") for uri in uris)
            return None if inside else self._outside(path)
        named = os.path.abspath(path)
        sign = _GLOB.search(named)
        # For a pattern: its base folder, and everything that it matches now, with links resolved.
        places = [named] if sign is None else [named[: sign.start()].rpartition("/")[0] or "/", *glob(named)]
        problems = (self._place_problem(path, os.path.realpath(place)) for place in places)
        return next((problem for problem in problems if problem is not None), None)

    def _place_problem(self, path: str, place: str) -> str | None:
        below = [each for each in map(_folder, self.paths) if _is_below(place, each)]
        if not below:
            return self._outside(path)
        inside = os.path.relpath(place, max(below, key=len)).split("/")
        if any(part.startswith(".") and part != "." for part in inside):
            return f"{path} is hidden; only files and folders without a leading dot may be named"
        if any(_is_below(place, kept) or _is_below(kept, place) for kept in map(_folder, self.protected)):
            return f"{path} holds the server's own files; use another folder"
        return None

    def _outside(self, path: str) -> str:
        known = ", ".join(self.paths) or "none"
        return f"{path} is outside of what this server may use ({known}); start it with --allow-path"

    def function_problem(self, target: str) -> str | None:
        """Why the function `module:function` is refused, or None."""
        module = target.partition(":")[0]
        if any(module == allowed or module.startswith(f"{allowed}.") for allowed in self.functions):
            return None
        return f"Python functions of {module} are not allowed on this server; start it with --allow-function {module}"

    def _check_calls(self, script: Script) -> None:
        tokens = Headgate().tokenize(script.text)
        for token, following in pairwise(tokens):
            reason = _FUNCTIONS.get(token.text.lower())
            if reason is not None and following.token_type == TokenType.L_PAREN:
                raise script.error(f"{token.text} {reason}, which is not allowed on this server", token.start)

    def _problems(self, statement: st.Statement) -> Iterator[tuple[str, int]]:
        known = connectors()
        match statement:
            case st.CreateStream():
                yield from self._format(statement.format, statement.options, known.sources)
            case st.CreateTable():
                yield from self._format(statement.format, statement.options, known.tables)
            case st.CreateQuery():
                for clause in statement.sinks:
                    yield from self._format(clause.format, clause.options, known.sinks)
            case st.CreateFunction():
                problem = self.function_problem(statement.target)
                if problem is not None:
                    yield problem, statement.target_at
            case st.CreateClass() | st.CreateSplit() | st.SetTimeZone() | st.SetObjectives():
                pass
            case st.DropQuery() | st.AlterQuery() | st.PauseQuery() | st.ResumeQuery() | st.StopQuery():
                pass
            case _:
                # Fails closed: a new kind of statement is refused until it is handled here.
                yield "this statement is not allowed on a server", statement.at

    def _format(
        self, name: st.Name, options: Sequence[st.Option], known: Mapping[str, Declared]
    ) -> Iterator[tuple[str, int]]:
        format_ = name.text.lower()
        if format_ != "callback" and format_ not in FORMATS and format_ not in {each.lower() for each in self.formats}:
            hint = f"start it with --allow-format {name.text}"
            yield f"the format {name.text} is not allowed on this server; {hint}", name.at
        for option in options:
            problem = self._option(option, known.get(format_))
            if problem is not None:
                yield problem

    def _option(self, option: st.Option, connector: Declared | None) -> tuple[str, int] | None:
        key = option.key.text
        lower = key.lower()
        declared = None if connector is None else connector.options.find(key)
        needed = [] if connector is None else [each.lower() for group in connector.options.needed() for each in group]
        given = any(fnmatchcase(lower, pattern.lower()) for pattern in self.options)
        if not given and (lower in _DESTRUCTIVE or not (declared or lower in needed)):
            return f"the option {key} is not allowed on this server; start it with --allow-option {key}", option.key.at
        problem: str | None = None
        foreign = [name for name in referenced(option.value) if not name.startswith(VARIABLES)]
        if foreign:
            problem = f"the environment variable {foreign[0]} may not be named; only those that begin with {VARIABLES}"
        elif lower == "function":
            problem = self.function_problem(option.value)
        elif lower == "table" and not re.fullmatch(r"[\w.]+", option.value):
            problem = f"{option.value} is not the name of a table"
        elif _PATH_NAME.search(key) and lower not in _NO_PATHS and (declared is None or declared.kind == "text"):
            problem = self.path_problem(option.value)
        return None if problem is None else (problem, option.value_at)


def check_literals(text: str, statements: Sequence[st.Statement], file: str = "statement") -> None:
    """SqlError at the first secret that is a literal: statements are kept in the checkpoint."""
    for statement in statements:
        for option in _options(statement):
            if has_literal(option.key.text, option.value):
                raise Script(text, file).error(
                    f"the option {option.key.text} has a secret, which would be kept in the checkpoint; write"
                    f" '${{env:{VARIABLES}NAME}}' and set this variable where the server starts",
                    option.value_at,
                )


def _options(statement: st.Statement) -> Iterator[st.Option]:
    match statement:
        case st.CreateStream() | st.CreateTable():
            yield from statement.options
        case st.CreateQuery():
            for clause in statement.sinks:
                yield from clause.options


def _folder(path: str) -> str:
    return path if "://" in path else os.path.realpath(path)


def _is_below(place: str, folder: str) -> bool:
    return place == folder or place.startswith(f"{folder.rstrip('/')}/")
