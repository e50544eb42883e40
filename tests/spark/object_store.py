"""A model of an object store in memory, with the semantics of S3, which crashes at a chosen operation."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyarrow import fs

from tests.spark.crashing_files import Crash


class Objects:
    """The objects that all clients of a store see: puts are atomic, reads and lists consistent."""

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}
        self.lock = threading.Lock()
        self.away = False


class _Put(io.BytesIO):
    """An upload: the object appears when it is closed."""

    def __init__(self, finish: Callable[[bytes], None]) -> None:
        super().__init__()
        self._finish: Callable[[bytes], None] | None = finish

    def close(self) -> None:
        finish, self._finish = self._finish, None
        if finish is not None:
            data = self.getvalue()
            super().close()
            finish(data)


class ObjectStore(fs.FileSystemHandler):
    """One client. It crashes at the operation of a given number that changes something: `before` or `after` it; `torn`:
    in the middle of an upload, of which nothing appears then. `before` is called before every operation, and `put` does
    the puts.

    It has no rename, and folders are only what names look like.
    """

    def __init__(self, objects: Objects, at: int | None = None, how: str = "") -> None:
        self._objects = objects
        self._at = at
        self._how = how
        self.count = 0
        self.before: Callable[[], None] = lambda: None
        self.put: Callable[[Callable[[], None]], None] = lambda appear: appear()

    def _step(self, operation: Callable[[], None]) -> None:
        self._reach()
        self.count += 1
        if self.count == self._at and self._how != "after":
            raise Crash
        operation()
        if self.count == self._at:
            raise Crash

    def _reach(self) -> None:
        self.before()
        if self._objects.away:
            raise OSError("the server cannot be reached")

    def get_type_name(self) -> str:
        return "s3"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> Any:
        self._reach()
        with self._objects.lock:
            return [self._info(path) for path in paths]

    def _info(self, path: str) -> fs.FileInfo:
        if path in self._objects.content:
            return fs.FileInfo(path, fs.FileType.File, size=len(self._objects.content[path]))
        below = any(name.startswith(f"{path}/") for name in self._objects.content)
        return fs.FileInfo(path, fs.FileType.Directory if below else fs.FileType.NotFound)

    def get_file_info_selector(self, selector: fs.FileSelector) -> Any:
        self._reach()
        prefix = f"{selector.base_dir}/"
        with self._objects.lock:
            below = {name[len(prefix) :].partition("/")[0] for name in self._objects.content if name.startswith(prefix)}
            if not below and not selector.allow_not_found:
                raise FileNotFoundError(selector.base_dir)
            return [self._info(f"{prefix}{name}") for name in sorted(below)]

    def create_dir(self, path: str, recursive: bool) -> None:
        raise AssertionError("a checkpoint needs no folders in an object store")

    def delete_dir(self, path: str) -> None:
        raise AssertionError("never")

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        raise AssertionError("never")

    def delete_root_dir_contents(self) -> None:
        raise AssertionError("never")

    def delete_file(self, path: str) -> None:
        def delete() -> None:
            with self._objects.lock:
                if self._objects.content.pop(path, None) is None:
                    raise FileNotFoundError(path)

        self._step(delete)

    def move(self, src: str, dest: str) -> None:
        raise AssertionError("an object store has no rename")

    def copy_file(self, src: str, dest: str) -> None:
        raise AssertionError("a checkpoint copies nothing")

    def open_input_stream(self, path: str) -> Any:
        return self.open_input_file(path)

    def open_input_file(self, path: str) -> Any:
        self._reach()
        with self._objects.lock:
            if path not in self._objects.content:
                raise FileNotFoundError(path)
            return pa.BufferReader(self._objects.content[path])

    def open_output_stream(self, path: str, metadata: Any) -> Any:
        def put(data: bytes) -> None:
            def appear() -> None:
                with self._objects.lock:
                    self._objects.content[path] = data

            self._step(lambda: self.put(appear))

        if self._how == "torn" and self.count + 1 == self._at:
            self.count += 1
            raise Crash
        return pa.PythonFile(_Put(put), mode="w")

    def open_append_stream(self, path: str, metadata: Any) -> Any:
        raise AssertionError("an object store cannot append")
