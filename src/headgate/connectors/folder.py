"""Sinks that write a folder of files, one file per query and epoch."""

from __future__ import annotations

import os
import zlib
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from headgate.connectors.contract import Guarantee, ResultSink
from headgate.graph import types as t
from headgate.graph.options import OptionDeclaration, OptionProblem
from headgate.graph.queries import Query
from headgate.graph.types import Field, Schema, sql_name
from headgate.spark.messages import DEAD, WrittenFile
from headgate.spark.results import HostWriter, Results, SinkError, Writer
from headgate.spark.storage import is_object_store
from headgate.spark.written_files import WrittenFiles, open_folder

_STAGING = ".headgate"
"""The folder for files that are not committed yet. Spark and others do not read names that begin with a dot."""

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
    """A folder with one file per query and epoch. The concrete class says how a table becomes the bytes of a file."""

    guarantee = Guarantee(
        True,
        "a file appears whole, under a name that belongs to its query and epoch",
        "tests/crash/test_formats.py::test_rows_of_every_format_arrive_once",
    )
    written_by = "hosts"

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
        writer = self.host_writer(query.name, options, run, "")
        writer.prepare()
        return writer

    def host_writer(self, query: str, options: Mapping[str, str], run: str, part: str) -> FolderWriter:
        return FolderWriter(
            query,
            f"{query}-{run}",
            options["path"],
            self.encoder(options),
            self.ending(options),
            _columns(options),
            int(options.get("maxRecordsPerFile", "0")),
            part,
        )


class FolderWriter(HostWriter):
    """Writes `<path>/[<column>=<value>/…]<name>-<epoch>[<part>][-<number>].<ending>`.

    A file is staged as `<path>/.headgate/<name>/<epoch>-<attempt>…`, where readers do not look, and moved when its
    epoch is committed. Names are deterministic: an epoch that is published again leaves the same files.

    The driver makes the staging folder (`prepare`). A host that does not find it does not see the driver's folder, and
    leaves the rows to the driver.
    """

    def __init__(
        self,
        query: str,
        name: str,
        path: str,
        encode: Callable[[pa.Table], bytes],
        ending: str,
        partition_by: Sequence[str] = (),
        most: int = 0,
        part: str = "",
        files: fs.FileSystem | None = None,
    ) -> None:
        self._query = query
        self._name = name
        self._encode = encode
        self._ending = ending
        self._partition_by = partition_by
        self._most = most
        self._part = part
        self._given = files
        self._whose = DEAD if query == DEAD else f"query {query}"
        self._path = path
        try:
            opened, self._root = open_folder(path)
        except (OSError, pa.ArrowException) as error:
            raise self._not_opened(error) from error
        self._files = files or opened
        self._has_folders = not is_object_store(self._files)
        self._folder = path if "://" in path else self._root
        self._staging = f"{_STAGING}/{name}"

    def prepare(self) -> None:
        """Makes the folders, in the driver."""
        try:
            self._files.create_dir(self._root, recursive=True)
            if self._has_folders:
                self._files.create_dir(f"{self._root}/{self._staging}", recursive=True)
        except (OSError, pa.ArrowException) as error:
            raise self._not_opened(error) from error

    def stage(self, results: Results, attempt: str) -> list[WrittenFile]:
        staging = f"{self._root}/{self._staging}"
        if self._has_folders and self._files.get_file_info(staging).type != fs.FileType.Directory:
            raise SinkError(f"{self._whose}: there is no folder {staging} here")
        staged: list[WrittenFile] = []
        for folder, table in partitions(results.table, self._partition_by):
            step = self._most or table.num_rows
            for number, start in enumerate(range(0, table.num_rows, step)):
                count = f"-{number}" if self._most else ""
                name = f"{self._name}-{results.epoch:09d}{self._part}{count}.{self._ending}"
                rows = table.slice(start, step)
                final = f"{folder}/{name}" if folder else name
                # The checksum distinguishes the files of two sinks of the query in one folder.
                unique = f"{len(staged)}-{zlib.crc32(final.encode()):08x}"
                hidden = f"{self._staging}/{results.epoch:09d}-{attempt}{self._part}-{unique}.tmp"
                staged.append(WrittenFile(self._query, self._folder, hidden, final, rows.num_rows))
                try:
                    self._write(hidden, rows)
                except SinkError:
                    # On a full disk, the remains of this attempt would take the space that the next one needs.
                    self._remove(staged)
                    raise
        return staged

    def publish(self, results: Results) -> None:
        self.prepare()
        files = WrittenFiles(self._given)
        for file in self.stage(results, "driver"):
            files.publish(file)

    def clean(self, epoch: int) -> None:
        selector = fs.FileSelector(f"{self._root}/{self._staging}", allow_not_found=True)
        # A hidden file that stays does no harm, and the next clean-up tries again.
        with suppress(OSError):
            for info in self._files.get_file_info(selector):
                if info.base_name.endswith(".tmp") and int(info.base_name.partition("-")[0]) <= epoch:
                    self._files.delete_file(info.path)

    def close(self) -> None:
        """Removes the staging folder if it is empty."""
        if isinstance(self._files, fs.LocalFileSystem):
            with suppress(OSError):
                os.rmdir(f"{self._root}/{self._staging}")
                os.rmdir(f"{self._root}/{_STAGING}")

    def _write(self, hidden: str, table: pa.Table) -> None:
        try:
            with self._files.open_output_stream(f"{self._root}/{hidden}", compression=None) as stream:
                stream.write(self._encode(table))
        except OSError as error:
            raise SinkError(f"{self._whose}: folder {self._path} cannot be written: {error}") from error

    def _remove(self, staged: Sequence[WrittenFile]) -> None:
        for file in staged:
            with suppress(OSError):
                self._files.delete_file(f"{self._root}/{file.hidden}")

    def _not_opened(self, error: Exception) -> SinkError:
        return SinkError(f"{self._whose}: folder {self._path} cannot be opened: {error}")


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
