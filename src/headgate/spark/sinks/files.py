"""A folder of Parquet, JSON or CSV files, one a query and epoch: exactly once, since a file is written whole."""

from __future__ import annotations

import base64
import datetime
import decimal
import io
import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
from pyarrow import fs

from headgate.graph.types import is_time
from headgate.spark.sinks.contract import Results, SinkError


class FolderWriter:
    """Writes `<path>/<query>-<run>-<epoch>.<ending>`; `run` names the checkpoint, so that two runs never collide."""

    def __init__(self, query: str, format_: str, options: Mapping[str, str], run: str) -> None:
        path = options.get("path")
        if not path:
            raise SinkError(f"query {query}: sink {format_} needs a folder; write OPTIONS (path 'out/{query}')")
        self._query = query
        self._ending = format_
        self._encode = _ENCODERS[format_](options)
        self._run = run
        try:
            if "://" in path:
                self._files, self._root = fs.FileSystem.from_uri(path)
            else:
                self._files, self._root = fs.LocalFileSystem(), path
            self._files.create_dir(self._root, recursive=True)
        except (OSError, pa.ArrowException) as error:
            raise SinkError(f"query {query}: folder {path} cannot be opened: {error}") from error

    def publish(self, results: Results) -> None:
        name = f"{self._query}-{self._run}-{results.epoch:09d}.{self._ending}"
        # Spark and others do not read files whose name begins with a dot.
        hidden = f"{self._root}/.{name}.tmp"
        try:
            with self._files.open_output_stream(hidden) as stream:
                stream.write(self._encode(results.table))
            self._files.move(hidden, f"{self._root}/{name}")
        except OSError as error:
            raise SinkError(f"query {self._query}: {self._root}/{name} cannot be written: {error}") from error

    def close(self) -> None:
        """Every file is closed already."""


def _parquet(options: Mapping[str, str]) -> Callable[[pa.Table], bytes]:
    compression = options.get("compression", "snappy")

    def encode(table: pa.Table) -> bytes:
        sink = io.BytesIO()
        pyarrow.parquet.write_table(table, sink, compression=compression)
        return sink.getvalue()

    return encode


def _csv(options: Mapping[str, str]) -> Callable[[pa.Table], bytes]:
    settings = pyarrow.csv.WriteOptions(
        include_header=options.get("header", "false").lower() == "true",
        delimiter=options.get("sep", options.get("delimiter", ",")),
    )

    def encode(table: pa.Table) -> bytes:
        columns = [_plain(column) for column in table.columns]
        sink = io.BytesIO()
        pyarrow.csv.write_csv(pa.table(columns, names=table.column_names), sink, settings)
        return sink.getvalue()

    return encode


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column as CSV can hold it: timestamps as Spark writes them, nested values refused."""
    if is_time(column.type):
        zone = "Z" if column.type.tz else ""
        return pc.strftime(column.cast(pa.timestamp("ms", column.type.tz)), format=f"%Y-%m-%dT%H:%M:%S{zone}")
    if pa.types.is_nested(column.type):
        raise SinkError(f"CSV has no place for a column of type {column.type}; select its members instead")
    return column


def _json(options: Mapping[str, str]) -> Callable[[pa.Table], bytes]:
    del options

    def encode(table: pa.Table) -> bytes:
        names = table.column_names
        values = [column.to_pylist() for column in table.columns]
        lines = (
            json.dumps(
                {name: value for name, value in zip(names, row, strict=True) if value is not None},
                default=_jsonable,
                ensure_ascii=False,
                separators=(",", ":"),
            )
            for row in zip(*(map(_finite, column) for column in values), strict=True)
        )
        return "".join(f"{line}\n" for line in lines).encode()

    return encode


def _finite(value: Any) -> Any:
    """JSON has no NaN or infinity: Spark writes them as strings."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items() if part is not None}
    return [_finite(part) for part in value] if isinstance(value, list) else value


def _jsonable(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        text = value.isoformat(timespec="microseconds" if value.microsecond % 1000 else "milliseconds")
        return text.replace("+00:00", "Z")
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return float(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(f"no JSON for {type(value).__name__}")


_ENCODERS: dict[str, Callable[[Mapping[str, str]], Callable[[pa.Table], bytes]]] = {
    "parquet": _parquet,
    "csv": _csv,
    "json": _json,
}
