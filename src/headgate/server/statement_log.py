"""The log of what is registered on a server: the statements and the policy that a restart begins with.

The log is `statements.json` in the checkpoint. It is replaced atomically, and only its owner may read it. It contains
no passwords (`allowed.check_literals`).
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from headgate.spark.checkpoint import Checkpoint, CheckpointError
from headgate.spark.storage import is_local
from headgate.sql import statements as st
from headgate.sql.dialect import Headgate

FILE = "statements.json"
_FORMAT = 1
_PAUSES = (st.PauseQuery.__name__, st.ResumeQuery.__name__)
_OF_A_QUERY = (st.CreateQuery.__name__, st.AlterQuery.__name__, st.StopQuery.__name__, *_PAUSES)


@dataclass(frozen=True)
class LoggedStatement:
    """One statement. `kind` is the name of its class in `headgate.sql.statements`, `name` what it declares."""

    sql: str
    kind: str
    name: str


def split(text: str, statements: Sequence[st.Statement]) -> list[LoggedStatement]:
    """The parsed statements of a text, each with its part of the text."""
    if not statements:
        return []
    ends = [*(statement.at for statement in statements[1:]), len(text)]
    return [
        LoggedStatement(
            text[statement.at : end].strip().rstrip(";").rstrip(), type(statement).__name__, _name(statement)
        )
        for statement, end in zip(statements, ends, strict=True)
    ]


def compacted(log: Iterable[LoggedStatement]) -> list[LoggedStatement]:
    """A shorter log with the same effect: a dropped query is left out, unless another statement reads it; of repeated
    settings only the last is kept."""
    kept = _last_settings(list(log))
    for dropped in [each for each in kept if each.kind == st.DropQuery.__name__]:
        name = dropped.name.lower()
        end = kept.index(dropped)
        own = [each for each in kept[:end] if each.kind in _OF_A_QUERY and each.name.lower() == name]
        others = [each for each in kept[:end] if each not in own and each.kind != st.DropQuery.__name__]
        if any(name in _words(each.sql) for each in others):
            continue
        kept = [each for place, each in enumerate(kept) if place > end or (each not in own and place != end)]
    return kept


def _last_settings(log: list[LoggedStatement]) -> list[LoggedStatement]:
    """The log without settings that a later statement overrides: objectives, pauses, and the same change of a query.

    A resumed query needs no statement: without its pause, a RESUME would be refused.
    """
    last: dict[tuple[str, ...], int] = {}
    for place, each in enumerate(log):
        last[_setting(each, place)] = place
    return [
        each
        for place, each in enumerate(log)
        if last[_setting(each, place)] == place and each.kind != st.ResumeQuery.__name__
    ]


def _setting(statement: LoggedStatement, place: int) -> tuple[str, ...]:
    """What a statement sets: a later one that sets the same replaces it."""
    kind = statement.kind
    if kind == st.SetObjectives.__name__:
        return (kind,)
    if kind in _PAUSES:
        return ("pause", statement.name.lower())
    return (kind, statement.sql) if kind == st.AlterQuery.__name__ else (kind, str(place))


class LogFile(Protocol):
    """Where the log is kept."""

    def read(self) -> bytes | None: ...

    def write(self, data: bytes) -> None: ...


class CheckpointLogFile:
    """Keeps the log in a checkpoint; in a local folder only its owner may read the file."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint

    def read(self) -> bytes | None:
        return self._checkpoint.content(FILE) if self._checkpoint.exists(FILE) else None

    def write(self, data: bytes) -> None:
        if not is_local(self._checkpoint.uri):
            self._checkpoint.write(FILE, data)
            return
        folder = self._checkpoint.absolute_uri.removeprefix("file://")
        unfinished = os.path.join(folder, f".{FILE}.{uuid.uuid4().hex[:8]}.tmp")
        try:
            with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(unfinished, os.path.join(folder, FILE))
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise CheckpointError(f"checkpoint {self._checkpoint.name}: {FILE} cannot be written: {reason}") from error


class StatementLog:
    """What is registered, in memory and in its store. Used by one thread at a time."""

    def __init__(self, store: LogFile) -> None:
        self._store = store
        self.statements: list[LoggedStatement] = []
        self.policy: str | None = None
        data = store.read()
        if data is not None:
            self._load(data)

    def _load(self, data: bytes) -> None:
        try:
            found: dict[str, Any] = json.loads(data)
            if found["format"] != _FORMAT:
                raise CheckpointError(
                    f"{FILE} has format {found['format']}; this Headgate reads format {_FORMAT}: use the version that"
                    " wrote it, or give another checkpoint"
                )
            self.statements = [LoggedStatement(**each) for each in found["statements"]]
            self.policy = found["policy"]
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, CheckpointError):
                raise
            raise CheckpointError(
                f"{FILE} is damaged ({error}); restore it from a copy, or remove it to start without statements"
            ) from error

    def replace(self, statements: Sequence[LoggedStatement]) -> None:
        """Replaces the statements; CheckpointError if the log cannot be written, and then nothing has changed."""
        self._write(statements, self.policy)
        self.statements = list(statements)

    def set_policy(self, policy: str) -> None:
        self._write(self.statements, policy)
        self.policy = policy

    def _write(self, statements: Sequence[LoggedStatement], policy: str | None) -> None:
        values = {"format": _FORMAT, "policy": policy, "statements": [asdict(each) for each in statements]}
        self._store.write(json.dumps(values, ensure_ascii=False, indent=1).encode())


def _name(statement: st.Statement) -> str:
    name = getattr(statement, "name", None)
    return name.text if isinstance(name, st.Name) else ""


def _words(sql: str) -> set[str]:
    return {token.text.lower() for token in Headgate().tokenize(sql)}
