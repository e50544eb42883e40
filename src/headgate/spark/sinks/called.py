"""A Python function that is called with each epoch's results."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from headgate.spark.sinks.contract import Results


class CallbackWriter:
    """Calls a function with the rows as a table. At least once: after a crash the last epoch comes again.

    For an update query the table has a last column `deleted`.
    """

    def __init__(self, function: Callable[[pa.Table], object]) -> None:
        self._function = function

    def publish(self, results: Results) -> None:
        table = results.table
        if results.deleted is not None:
            table = table.append_column("deleted", results.deleted)
        self._function(table)

    def close(self) -> None:
        """Nothing is held open."""
