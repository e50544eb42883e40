"""Where results go: one module a kind of sink. Every sink takes an epoch's results once, or again with no harm."""

from __future__ import annotations

from headgate.spark.sinks.contract import Results, SinkError, Writer
from headgate.spark.sinks.opened import FORMATS, callback, open_sink

__all__ = ["FORMATS", "Results", "SinkError", "Writer", "callback", "open_sink"]
