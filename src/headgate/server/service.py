"""The engine behind the server: what is registered and kept, its state, samples, and the operations of clients.

All methods may be called from any thread and may block on the engine; the API calls them on worker threads.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from typing import Literal as OneOf

from headgate.engine import Engine
from headgate.server.allowed import StatementPermissions, check_literals
from headgate.server.engine_view import EngineView
from headgate.server.history import History
from headgate.server.masking import Secrets, secrets_in
from headgate.server.statement_log import StatementLog, compacted, split
from headgate.sql import Result, SqlError
from headgate.sql import statements as st
from headgate.sql.dialect import parse
from headgate.sql.errors import Script

State = OneOf["starting", "running", "failed", "stopped"]

_EVERY = 1.0
"""Seconds between two samples."""

_PATIENCE = (2.0, 60.0)
"""Seconds until a failed engine is restarted: the first time, and at most."""

log = logging.getLogger("headgate.server")


class LimitError(ValueError):
    """A request exceeds a limit of the server; the message names it."""


@dataclass(frozen=True)
class ServerLimits:
    """Limits for clients: bytes of a request, characters of a statement's text, registered queries, other declarations,
    rows of one answer, and clients that follow results or metrics."""

    body: int = 1 << 20
    statement: int = 200_000
    queries: int = 1000
    declarations: int = 2000
    rows: int = 10_000
    followers: int = 1000


class Service:
    """An engine, what clients have registered, and samples of its metrics. `view` is what clients see of it.

    Without a log of `statements`, what clients register is lost when the engine ends. `listeners` are called with
    events, each a kind and a value, once a second and after each change; `dropped` with the names of dropped queries.
    """

    def __init__(
        self,
        engine: Engine,
        allowed: StatementPermissions,
        limits: ServerLimits | None = None,
        statements: StatementLog | None = None,
    ) -> None:
        self.engine = engine
        self.allowed = allowed
        self.limits = limits or ServerLimits()
        self.secrets = Secrets()
        self.view = EngineView(engine, self.secrets, self.limits.rows)
        self.history = History()
        self.listeners: list[Callable[[list[tuple[str, Any]]], None]] = []
        self.dropped: list[Callable[[str], None]] = []
        self._statements = statements
        self._lock = threading.RLock()
        self._state: State = "starting"
        self._error = ""
        self._not_restored: list[dict[str, str]] = []
        self._restored = False
        self._changed_state = threading.Condition()
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._decided = time.time()

    # Running ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts the engine in the background with everything that is registered, and restarts it after failures."""
        self._run("headgate-engine", self._keep_running)
        self._run("headgate-samples", self._sample)

    def attach(self) -> None:
        """Only takes samples, of an engine that its owner starts and stops."""
        self._run("headgate-watch", self._watch)
        self._run("headgate-samples", self._sample)

    def _watch(self) -> None:
        # Blocks while the engine starts, since starting holds its lock.
        self.engine.metrics()
        self._set("running")

    def stop(self) -> None:
        """Ends the threads and, if `start` was called, the engine."""
        self._stop.set()
        with self._changed_state:
            self._changed_state.notify_all()
        for thread in self._threads:
            thread.join(30)
        self._set("stopped")

    @property
    def state(self) -> State:
        return self._state

    def status(self) -> dict[str, Any]:
        """What the server is doing, for people and for health checks."""
        return {
            "state": self._state,
            "error": self._error,
            "policy": self.engine.policy,
            "queries": len(self.engine.queries),
            "not_restored": list(self._not_restored),
            "version": self.view.version,
        }

    def await_engine(self, seconds: float) -> bool:
        """Waits until the engine is no longer starting; False if it still is after `seconds`."""
        with self._changed_state:
            return self._changed_state.wait_for(lambda: self._state != "starting" or self._stop.is_set(), seconds)

    def begin_with(self, text: str, file: str) -> None:
        """Executes a script of the administrator, which may name anything, unless the log already has statements.
        Called before `start`; SqlError if the script is wrong."""
        if self._statements is not None and self._statements.statements:
            return
        statements = list(parse(Script(text, file)))
        if self._statements is not None:
            check_literals(text, statements, file)
        self.engine.execute(text, file=file)
        self.secrets.learn(secrets_in(text))
        if self._statements is not None:
            self._statements.replace(split(text, statements))
            self._restored = True

    # What clients do --------------------------------------------------------------------------------------

    def execute(self, text: str) -> list[dict[str, str]]:
        """Executes statements and keeps them, all or none; SqlError, SourceError, SinkError, LimitError if refused."""
        with self._lock:
            statements = self._checked(text)
            # A wrong statement is refused before the log is written; binding twice is cheap.
            self.engine.check(text, "statement")
            before = None if self._statements is None else list(self._statements.statements)
            if self._statements is not None and before is not None:
                self._statements.replace(compacted([*before, *split(text, statements)]))
            try:
                done = self.engine.execute(text, file="statement")
            except BaseException:
                if self._statements is not None and before is not None:
                    self._statements.replace(before)
                raise
            self.secrets.learn(secrets_in(text))
            self._changed(_summary(done))
            for each in done:
                if each.done == "dropped":
                    self._report_dropped(each.name)
            return [{"done": each.done, "kind": each.kind, "name": each.name} for each in done]

    def check(self, text: str) -> list[dict[str, str]]:
        """What `execute` would do; the same errors, except those of sources and sinks that cannot be opened."""
        with self._lock:
            self._checked(text)
            done = self.engine.check(text, "statement")
            return [{"done": each.done, "kind": each.kind, "name": each.name} for each in done]

    def drop(self, query: str) -> None:
        """Stops a query; EngineError if there is none of this name."""
        with self._lock:
            name = self._known(query)
            self.execute(f"DROP QUERY {quoted(name)}")

    def pause(self, query: str) -> None:
        """Pauses a query; the rows that arrive meanwhile are kept. EngineError if there is none of this name."""
        with self._lock:
            self.execute(f"PAUSE QUERY {quoted(self._known(query))}")

    def resume(self, query: str) -> None:
        """Ends a pause; EngineError if there is none of this name."""
        with self._lock:
            self.execute(f"RESUME QUERY {quoted(self._known(query))}")

    def retry(self, query: str) -> None:
        """Runs a failed query again; EngineError if there is no such query, or it has not failed."""
        with self._lock:
            self.engine.retry(query)
            self._changed(f"query {query} tried again")

    def set_policy(self, policy: str) -> None:
        """PolicyError if there is no such policy."""
        with self._lock:
            before = self.engine.policy
            self.engine.policy = policy
            if self._statements is not None:
                self._statements.set_policy(policy)
            if before != policy:
                self._changed(f"policy {before} → {policy}", kind="policy")

    def set_objectives(self, weights: Mapping[str, float]) -> dict[str, float]:
        """Sets the weights of the metrics that matter to the whole system; empty: the policy's own."""
        with self._lock:
            if weights:
                inside = ", ".join(f"{quoted(name)} = {weight!r}" for name, weight in weights.items())
                self.execute(f"SET OBJECTIVES ({inside})")
            else:
                self.engine.objectives = {}
                if self._statements is not None:
                    kept = [each for each in self._statements.statements if each.kind != st.SetObjectives.__name__]
                    self._statements.replace(kept)
                self._changed("objectives reset")
            return self.engine.objectives

    # Inside -----------------------------------------------------------------------------------------------

    def _run(self, name: str, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _set(self, state: State, error: str = "") -> None:
        with self._changed_state:
            self._state, self._error = state, self.secrets.masked(error)
            self._changed_state.notify_all()
        self._tell([("status", self.status())])

    def _keep_running(self) -> None:
        self._restore()
        patience = _PATIENCE[0]
        while not self._stop.is_set():
            try:
                self.engine.start()
                self._set("running")
                self._changed("engine started", kind="engine")
                patience = _PATIENCE[0]
                while not self._stop.is_set() and not self.engine.wait(0.5):
                    pass
            except Exception as error:
                log.error("the engine stopped: %s", self.secrets.masked(str(error)))
                self._set("failed", " ".join(str(error).split()) or type(error).__name__)
                self.history.note("engine", "engine stopped")
            self.engine.stop()
            if not self._stop.wait(patience):
                patience = min(2 * patience, _PATIENCE[1])

    def _restore(self) -> None:
        """Executes the statements of the log. A statement that fails now stays in the log."""
        if self._statements is None or self._restored:
            return
        for statement in self._statements.statements:
            self.secrets.learn(secrets_in(statement.sql))
            try:
                self.engine.execute(statement.sql, file="statement")
            except Exception as error:
                reason = self.secrets.masked(getattr(error, "message", str(error)))
                log.error("%s %s is not restored: %s", statement.kind, statement.name, reason)
                self._not_restored.append({"statement": f"{statement.kind} {statement.name}".strip(), "error": reason})
        if self._statements.policy is not None:
            try:
                self.engine.policy = self._statements.policy
            except ValueError as error:
                self._not_restored.append({"statement": f"policy {self._statements.policy}", "error": str(error)})

    def _sample(self) -> None:
        while not self._stop.wait(_EVERY):
            if self._state == "starting":
                continue
            try:
                self._take_sample()
            except Exception:
                # An engine that is being stopped or started has no metrics for a moment.
                log.debug("no sample", exc_info=True)

    def _take_sample(self) -> None:
        metrics = self.view.metrics()
        sample = self.history.sample(metrics, self.engine.latencies())
        self._note_decisions()
        self._tell(
            [
                ("sample", sample),
                ("queries", {"queries": self.view.queries(), "dead_letters": metrics["dead_letters"]}),
                ("graph", self.view.live_graph(metrics)),
                ("status", self.status()),
            ]
        )

    def _note_decisions(self) -> None:
        """Adds events for new decisions."""
        new = [decision for decision in self.engine.decisions() if decision["at"] > self._decided]
        for decision in new:
            self._decided = decision["at"]
            if decision["before"] != decision["chosen"]:
                text = f"{decision['subject']}: {decision['before']} → {decision['chosen']}"
                self._tell([("event", self.history.note("decision", text, decision["at"]))])

    def _tell(self, events: list[tuple[str, Any]]) -> None:
        for listener in tuple(self.listeners):
            listener(events)

    def _changed(self, text: str, kind: str = "change") -> None:
        """Called after something was registered, dropped or set."""
        self.view.changed()
        self._tell([("event", self.history.note(kind, text)), ("status", self.status())])

    def _report_dropped(self, query: str) -> None:
        for listener in tuple(self.dropped):
            listener(query)

    def _checked(self, text: str) -> list[st.Statement]:
        if len(text) > self.limits.statement:
            raise LimitError(f"the text has {len(text):,} characters; at most {self.limits.statement:,} are allowed")
        try:
            # Arrow and the JVM cannot represent lone surrogates.
            text.encode()
        except UnicodeEncodeError as error:
            raise SqlError("this is not a character", "statement", text[: error.start].count("\n") + 1, 1) from None
        statements = self.allowed.check(text)
        if self._statements is not None:
            check_literals(text, statements)
        catalog = self.engine.catalog
        added = sum(isinstance(each, st.CreateQuery) for each in statements)
        dropped = sum(isinstance(each, st.DropQuery) for each in statements)
        if len(catalog.queries) + added - dropped > self.limits.queries and added:
            raise LimitError(f"there are {len(catalog.queries):,} queries; at most {self.limits.queries:,} are allowed")
        declared = len(catalog.streams) + len(catalog.tables) + len(catalog.classes) + len(catalog.functions)
        if declared + len(statements) - added > self.limits.declarations:
            raise LimitError(f"there are {declared:,} declarations; at most {self.limits.declarations:,} are allowed")
        if any(isinstance(each, st.SetTimeZone) for each in statements) and catalog.queries:
            message = "the time zone is set before the first query is registered"
            raise SqlError(message, "statement", 1, 1)
        return statements

    def _known(self, query: str) -> str:
        """The name of a query as it was declared; EngineError if there is none."""
        return self.engine.declared(query).name


def _summary(done: Sequence[Result]) -> str:
    """What statements did, in one short line."""
    if len(done) <= 3:
        return ", ".join(f"{each.kind} {each.name} {each.done}" for each in done)
    kinds = Counter((each.kind, each.done) for each in done)
    return ", ".join(f"{number} × {kind} {what}" for (kind, what), number in kinds.items())


def quoted(name: str) -> str:
    """A name quoted for a statement."""
    return "`" + name.replace("`", "``") + "`"
