"""Sinks that write a folder of files, one file a query and epoch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from headgate.connectors.contract import Guarantee, ResultSink
from headgate.graph import types as t
from headgate.graph.options import OptionDeclaration, OptionProblem
from headgate.graph.queries import Query
from headgate.graph.types import Field, Schema, sql_name
from headgate.spark.results import Results, SinkError, Writer

PARTITION_BY = OptionDeclaration(
    "partitionBy", "columns, divided by commas, whose values become folders `column=value`", "columns"
)
SINK_OPTIONS = (
    OptionDeclaration("path", "folder", needed=True),
    PARTITION_BY,
    OptionDeclaration("maxRecordsPerFile", "most rows a file; 0: no limit", "integer", default="0"),
)
_IN_SELECT = "write date_format(column, 'pattern') in the SELECT instead"
NOT_WRITTEN = {
    "mode": "the results of each epoch are added; give an empty folder to start over",
    "encoding": "files are written in UTF-8",
    "dateFormat": _IN_SELECT,
    "timestampFormat": _IN_SELECT,
    "timestampNTZFormat": _IN_SELECT,
    "timeZone": "timestamps are written in UTC; " + _IN_SELECT,
    "locale": _IN_SELECT,
}


class FolderSink(ResultSink):
    """A folder that gets a file a query and epoch. The concrete class says how a table becomes the bytes of a file."""

    guarantee = Guarantee(True, "a file is written whole, under a name that belongs to its query and epoch")

    @abstractmethod
    def encoder(self, options: Mapping[str, str]) -> Callable[[pa.Table], bytes]:
        """Turns a table into the bytes of a file."""

    def ending(self, options: Mapping[str, str]) -> str:
        """The ending of file names, by which readers recognize the format."""
        del options
        return self.name

    def column_problem(self, column: Field) -> str | None:
        """Why files of this format cannot hold a column; None if they can."""
        del column
        return None

    def problem(self, options: Mapping[str, str], schema: Schema) -> OptionProblem | None:
        names = {field.name.lower(): field for field in schema.fields}
        chosen = _columns(options)
        for name in chosen:
            if name.lower() not in names:
                message = f"partitionBy names {name}, which is no column of the query; it has {', '.join(schema.names)}"
                return OptionProblem(PARTITION_BY.name, message)
            type_ = names[name.lower()].type
            if not (type_ in (t.STRING, t.BOOLEAN, t.DATE) or t.is_integral(type_)):
                message = f"partitionBy names {name}, which is {sql_name(type_)}; partition by STRING, BOOLEAN, DATE"
                return OptionProblem(PARTITION_BY.name, f"{message} or whole numbers, for example to_date({name})")
        left = [field for field in schema.fields if field.name.lower() not in {c.lower() for c in chosen}]
        if not left:
            return OptionProblem(PARTITION_BY.name, "partitionBy names all columns; leave one for the files")
        return self.file_problem(left)

    def file_problem(self, columns: Sequence[Field]) -> OptionProblem | None:
        """Why files of this format cannot hold these columns together."""
        for column in columns:
            message = self.column_problem(column)
            if message is not None:
                return OptionProblem(None, message)
        return None

    def open(self, spark: Any, query: Query, options: Mapping[str, str], run: str) -> Writer:
        del spark
        return FolderWriter(
            f"{query.name}-{run}",
            options["path"],
            self.encoder(options),
            self.ending(options),
            _columns(options),
            int(options.get("maxRecordsPerFile", "0")),
            f"query {query.name}",
        )


class FolderWriter:
    """Writes `<path>/[<column>=<value>/…]<name>-<epoch>[-<number>].<ending>`.

    A file appears whole, under a name that says what is in it: an epoch that is published again replaces its files by
    equal ones.
    """

    def __init__(
        self,
        name: str,
        path: str,
        encode: Callable[[pa.Table], bytes],
        ending: str,
        partition_by: Sequence[str] = (),
        most: int = 0,
        whose: str = "",
    ) -> None:
        self._name = name
        self._encode = encode
        self._ending = ending
        self._partition_by = partition_by
        self._most = most
        self._whose = whose or name
        try:
            if "://" in path:
                self._files, self._root = fs.FileSystem.from_uri(path)
            else:
                self._files, self._root = fs.LocalFileSystem(), path
            self._files.create_dir(self._root, recursive=True)
        except (OSError, pa.ArrowException) as error:
            raise SinkError(f"{self._whose}: folder {path} cannot be opened: {error}") from error

    def publish(self, results: Results) -> None:
        for folder, table in partitions(results.table, self._partition_by):
            step = self._most or table.num_rows
            for number, start in enumerate(range(0, table.num_rows, step)):
                part = f"-{number}" if self._most else ""
                name = f"{self._name}-{results.epoch:09d}{part}.{self._ending}"
                self._write(f"{self._root}/{folder}".rstrip("/"), name, table.slice(start, step))

    def _write(self, folder: str, name: str, table: pa.Table) -> None:
        # Spark and others do not read files whose name begins with a dot.
        hidden = f"{folder}/.{name}.tmp"
        try:
            if folder != self._root:
                self._files.create_dir(folder, recursive=True)
            with self._files.open_output_stream(hidden, compression=None) as stream:
                stream.write(self._encode(table))
            self._files.move(hidden, f"{folder}/{name}")
        except OSError as error:
            raise SinkError(f"{self._whose}: {folder}/{name} cannot be written: {error}") from error

    def close(self) -> None:
        """Every file is closed already."""


def partitions(table: pa.Table, columns: Sequence[str]) -> Iterator[tuple[str, pa.Table]]:
    """The rows of a table by the folder that they belong to, and without the columns that name it.

    >>> rows = pa.table({"k": ["a", None, "a"], "v": [1, 2, 3]})
    >>> [(folder, part["v"].to_pylist()) for folder, part in partitions(rows, ["k"])]
    [('k=a', [1, 3]), ('k=__HIVE_DEFAULT_PARTITION__', [2])]
    """
    if not columns:
        yield "", table
        return
    names = [next(n for n in table.column_names if n.lower() == column.lower()) for column in columns]
    parts = []
    for name in names:
        coded = table[name].combine_chunks().dictionary_encode(null_encoding="encode")
        folders = [_folder(name, value) for value in coded.dictionary.cast(pa.string()).to_pylist()]
        parts.append(pa.array(folders, pa.string()).take(coded.indices))
    folders = pc.binary_join_element_wise(*parts, "/").dictionary_encode()
    rest = table.drop_columns(names)
    for number, folder in enumerate(folders.dictionary.to_pylist()):
        yield folder, rest.filter(pc.equal(folders.indices, number))


def _folder(column: str, value: str | None) -> str:
    """The name of a partition's folder, as Spark and Hive write it.

    >>> _folder("k", "a/b c"), _folder("k", None)
    ('k=a%2Fb c', 'k=__HIVE_DEFAULT_PARTITION__')
    """
    text = _escaped(value) if value else "__HIVE_DEFAULT_PARTITION__"
    return f"{_escaped(column)}={text}"


def _escaped(text: str) -> str:
    return "".join(f"%{ord(c):02X}" if ord(c) < 32 or c in "\"#%'*/:=?\\\x7f{[]^" else c for c in text)


def _columns(options: Mapping[str, str]) -> list[str]:
    return [name.strip() for name in options.get(PARTITION_BY.name, "").split(",") if name.strip()]
