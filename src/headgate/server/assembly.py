"""Assembles a server: the engine, what statements may name, the log of statements, and the HTTP server."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from headgate.engine import Engine
from headgate.server.access import Access, AccessError, given_token
from headgate.server.allowed import StatementPermissions
from headgate.server.app import application
from headgate.server.service import ServerLimits, Service
from headgate.server.serving import PageServer
from headgate.server.statement_log import CheckpointLogFile, StatementLog
from headgate.spark.checkpoint import Checkpoint

DEFAULT_PORT = 8642


@dataclass(frozen=True)
class Address:
    """Where a server listens, and the token that it requires."""

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    token: str | None = None
    token_file: str | None = None

    def access(self) -> Access:
        """AccessError if the token is unsuitable, or missing where one is required."""
        return Access(self.host, given_token(self.token, self.token_file))


def allowed(
    paths: Sequence[str],
    functions: Sequence[str] = (),
    formats: Sequence[str] = (),
    options: Sequence[str] = (),
    checkpoint: str | None = None,
    token_file: str | None = None,
) -> StatementPermissions:
    """What statements may name; without `paths` everything below the working directory.

    AccessError if a path is not a folder, or if a statement could read the token.
    """
    folders = tuple(paths) or (os.getcwd(),)
    for folder in folders:
        if "://" not in folder and not os.path.isdir(folder):
            raise AccessError(f"{folder} is no folder; give one that exists with --allow-path")
    protected = [each for each in (checkpoint,) if each is not None and "://" not in each]
    found = StatementPermissions(folders, tuple(functions), tuple(formats), tuple(options), tuple(protected))
    if token_file is not None and found.path_problem(os.path.abspath(token_file)) is None:
        raise AccessError(f"{token_file} is in a folder that statements may read; keep the token elsewhere")
    return found


def server(
    engine: Engine,
    address: Address,
    may: StatementPermissions,
    checkpoint: str | None,
    limits: ServerLimits | None = None,
) -> tuple[Service, PageServer]:
    """A service over an engine and the HTTP server in front of it; neither is started. With a `checkpoint`, what is
    registered is kept in it."""
    access = address.access()
    log = None if checkpoint is None else StatementLog(CheckpointLogFile(Checkpoint(checkpoint)))
    service = Service(engine, may, limits, log)
    return service, PageServer(application(service, access), address.host, address.port)
