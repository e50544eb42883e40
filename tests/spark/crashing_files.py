"""A local file system that crashes at a chosen operation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyarrow import fs


class Crash(BaseException):
    """The process ends here. Not an Exception: nothing may catch it and continue."""


class CrashingFiles(fs.FileSystemHandler):
    """Passes every operation to the local file system and crashes at the operation of a given number: `before` it,
    `after` it, or with a half-written file (`torn`)."""

    def __init__(self, at: int | None, how: str, kind: str = "local") -> None:
        """`kind` is the name of the file system that it stands for."""
        self._inner = fs.LocalFileSystem()
        self._at = at
        self._how = how
        self._kind = kind
        self.count = 0

    def _step(self, operation: Callable[[], None]) -> None:
        self.count += 1
        if self.count == self._at and self._how != "after":
            raise Crash
        operation()
        if self.count == self._at:
            raise Crash

    def get_type_name(self) -> str:
        return self._kind

    def normalize_path(self, path: str) -> str:
        return str(self._inner.normalize_path(path))

    def get_file_info(self, paths: list[str]) -> Any:
        return self._inner.get_file_info(paths)

    def get_file_info_selector(self, selector: fs.FileSelector) -> Any:
        return self._inner.get_file_info(selector)

    def create_dir(self, path: str, recursive: bool) -> None:
        self._inner.create_dir(path, recursive=recursive)

    def delete_dir(self, path: str) -> None:
        self._inner.delete_dir(path)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        self._inner.delete_dir_contents(path, missing_dir_ok=missing_dir_ok)

    def delete_root_dir_contents(self) -> None:
        raise AssertionError("never")

    def delete_file(self, path: str) -> None:
        self._step(lambda: self._inner.delete_file(path))

    def move(self, src: str, dest: str) -> None:
        self._step(lambda: self._inner.move(src, dest))

    def copy_file(self, src: str, dest: str) -> None:
        self._step(lambda: self._inner.copy_file(src, dest))

    def open_input_stream(self, path: str) -> Any:
        return self._inner.open_input_stream(path)

    def open_input_file(self, path: str) -> Any:
        return self._inner.open_input_file(path)

    def open_output_stream(self, path: str, metadata: Any) -> Any:
        self.count += 1
        if self.count == self._at:
            if self._how == "torn":
                Path(path).write_bytes(b"half")
            raise Crash
        return self._inner.open_output_stream(path)

    def open_append_stream(self, path: str, metadata: Any) -> Any:
        raise AssertionError("never")
