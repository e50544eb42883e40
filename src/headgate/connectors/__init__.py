"""One file a kind of source or sink: its options, its guarantee, and how it reads or writes.

A module of this package that defines a subclass of `StreamSource`, `StaticTable` or `ResultSink` with a name is found
without being listed anywhere; the SQL checker, the docs and the engine use what the class declares.
"""

from __future__ import annotations

from headgate.connectors.callback import callback

__all__ = ["callback"]
