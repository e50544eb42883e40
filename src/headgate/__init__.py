"""Continuous SQL queries inside one Spark job, scheduled operator by operator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headgate.connectors import callback
    from headgate.control.query_control import EngineError
    from headgate.engine import Engine
    from headgate.server.client import connect
    from headgate.sql import SqlError

__all__ = ["Engine", "EngineError", "SqlError", "callback", "connect"]

_HOMES = {
    "Engine": "headgate.engine",
    "EngineError": "headgate.control.query_control",
    "SqlError": "headgate.sql",
    "callback": "headgate.connectors",
    "connect": "headgate.server.client",
}


def __getattr__(name: str) -> Any:
    """Finds a name in its module when it is first asked for: the command starts faster without Spark."""
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'headgate' has no attribute {name!r}")
