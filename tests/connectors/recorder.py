"""Stands in for a Spark session and records what its readers and writers are given."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


class Context:
    """Stands in for a Spark context."""

    applicationId = "recorder"  # noqa: N815


class Recorder:
    """A session whose `read`, `readStream` and `write` note their format, options, schema and target."""

    def __init__(self, columns: tuple[str, ...] = ()) -> None:
        self.columns = list(columns)
        self.format_ = ""
        self.given: dict[str, str] = {}
        self.schema_: Any = None
        self.selected: tuple[str, ...] = ()
        self.mode_ = ""
        self.partitioned: tuple[str, ...] = ()
        self.saved: str | None = None
        self.conf = SimpleNamespace(get=lambda _: "UTC")
        self.sparkContext = Context()

    @property
    def read(self) -> Recorder:
        return Recorder(tuple(self.columns))

    @property
    def readStream(self) -> Recorder:  # noqa: N802
        return self

    @property
    def write(self) -> Recorder:
        return self

    def range(self, *bounds: int) -> Recorder:
        return self

    def mapInArrow(self, function: Any, schema: Any) -> Recorder:  # noqa: N802
        self.columns = list(schema.names)
        return self

    def createDataFrame(self, rows: Any, schema: Any) -> Recorder:  # noqa: N802
        return self.mapInArrow(None, schema)

    def format(self, name: str) -> Recorder:
        self.format_ = name
        return self

    def options(self, **options: str) -> Recorder:
        self.given.update(options)
        return self

    def schema(self, schema: Any) -> Recorder:
        self.schema_ = schema
        return self

    def load(self) -> Recorder:
        return self

    def table(self, name: str) -> Recorder:
        self.given["table"] = name
        return self

    def selectExpr(self, *exprs: str) -> Recorder:  # noqa: N802
        self.selected = exprs
        return self

    def mode(self, mode: str) -> Recorder:
        self.mode_ = mode
        return self

    def partitionBy(self, *columns: str) -> Recorder:  # noqa: N802
        self.partitioned = columns
        return self

    def save(self, path: str | None = None) -> None:
        self.saved = path

    def saveAsTable(self, name: str) -> None:  # noqa: N802
        self.saved = name
