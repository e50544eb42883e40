"""The files of a checkpoint: on file systems, where a rename is atomic, and in object stores, where there is none."""

from __future__ import annotations

import os
import uuid
from abc import ABC, abstractmethod
from contextlib import suppress
from urllib.parse import urlsplit, urlunsplit

import pyarrow as pa
from pyarrow import fs

UNFINISHED = ".tmp"
"""The ending of files that are being written, or that a crash left half-written."""

_OBJECT_STORES = frozenset({"s3", "gcs", "abfs"})


def is_object_store(files: fs.FileSystem) -> bool:
    """Whether a file system has no rename and no folders: a file appears whole when it is closed or copied."""
    return files.type_name.removeprefix("py::") in _OBJECT_STORES


class Storage(ABC):
    """Files below a root, by their relative names. May be used by several threads and processes at once.

    Guarantees, even if a process is killed in the middle of an operation:

    - `write`: a file appears whole or not at all, and replaces one of the same name in one step
    - `read`, `read_at`, `exists` and `names` see every file that has appeared, at once and from everywhere
    - `delete`: a file that is not there is no error

    All other failures raise OSError: FileNotFoundError if a file is missing, another if the storage cannot be used.
    """

    def __init__(self, files: fs.FileSystem, root: str) -> None:
        self.files = files
        self.root = root.rstrip("/")

    @abstractmethod
    def prepare(self, folders: tuple[str, ...]) -> None:
        """Makes the folders that files are written to, where there are folders."""

    @abstractmethod
    def write(self, name: str, data: bytes | pa.Buffer) -> None:
        """Makes a file appear; see above."""

    def read(self, name: str) -> bytes:
        """The bytes of a file."""
        with self.files.open_input_stream(self.path(name), compression=None) as stream:
            data: bytes = stream.read()
            return data

    def read_at(self, name: str, offset: int, length: int) -> bytes:
        """A range of a file; fewer bytes if the file ends before."""
        with self.files.open_input_file(self.path(name)) as stream:
            # An object store refuses a range that begins behind the end.
            data: bytes = stream.read_at(length, offset) if offset < stream.size() else b""
            return data

    def exists(self, name: str) -> bool:
        """Whether there is a file of this name."""
        return bool(self.files.get_file_info(self.path(name)).type == fs.FileType.File)

    def names(self, folder: str = "", unfinished: bool = False) -> list[str]:
        """The files of a folder, in order; with `unfinished` also those that a crash left half-written."""
        found = self.files.get_file_info(self._selector(self.path(folder) if folder else self.root))
        return sorted(
            info.base_name
            for info in found
            if info.type == fs.FileType.File and (unfinished or not info.base_name.endswith(UNFINISHED))
        )

    def delete(self, name: str) -> None:
        """Removes a file."""
        with suppress(FileNotFoundError):
            self.files.delete_file(self.path(name))

    def path(self, name: str) -> str:
        return f"{self.root}/{name}"

    @staticmethod
    def _selector(path: str) -> fs.FileSelector:
        return fs.FileSelector(path)


class FileStorage(Storage):
    """A file system with an atomic rename."""

    def prepare(self, folders: tuple[str, ...]) -> None:
        for folder in folders:
            self.files.create_dir(self.path(folder), recursive=True)

    def write(self, name: str, data: bytes | pa.Buffer) -> None:
        self.files.move(self._unfinished(name, data), self.path(name))

    def create(self, name: str, data: bytes) -> bool:
        """As `write`, but only if there is no file of this name; returns whether this call created it.

        Of several concurrent calls one succeeds: a hard link cannot replace a file. Except on local (and locally
        mounted) file systems, `pyarrow.fs` has no exclusive create: another process may create the file between the
        check and the rename, and its file is replaced.
        """
        if self.exists(name):
            return False
        # Two processes that try at once must not write the same file.
        unfinished = self._unfinished(f"{name}-{uuid.uuid4().hex[:8]}", data)
        if isinstance(self.files, fs.LocalFileSystem):
            try:
                os.link(unfinished, self.path(name))
                return True
            except FileExistsError:
                return False
            except OSError:
                # A file system without hard links.
                self.files.move(unfinished, self.path(name))
                return True
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(unfinished)
        self.files.move(unfinished, self.path(name))
        return True

    def _unfinished(self, name: str, data: bytes | pa.Buffer) -> str:
        path = f"{self.path(name)}{UNFINISHED}"
        with self.files.open_output_stream(path, compression=None) as stream:
            stream.write(data)
        return path


class ObjectStorage(Storage):
    """An object store: no folders, no rename, no exclusive create; puts are atomic, reads and lists are consistent.

    S3 has guaranteed this since 2020, and compatible stores do, too.
    """

    def prepare(self, folders: tuple[str, ...]) -> None:
        del folders

    def write(self, name: str, data: bytes | pa.Buffer) -> None:
        # One write: after an error in the middle of several, closing the stream would complete half an object.
        with self.files.open_output_stream(self.path(name), compression=None) as stream:
            stream.write(data)

    @staticmethod
    def _selector(path: str) -> fs.FileSelector:
        return fs.FileSelector(path, allow_not_found=True)


def open_storage(uri: str, files: fs.FileSystem | None = None) -> Storage:
    """The storage that a folder or a URI names; `files` replaces its file system. OSError if there is none."""
    if files is not None:
        root = uri
    elif "://" in uri:
        files, root = fs.FileSystem.from_uri(_with_single_puts(uri))
    else:
        files, root = fs.LocalFileSystem(), uri
    return ObjectStorage(files, root) if is_object_store(files) else FileStorage(files, root)


def is_local(uri: str) -> bool:
    """Whether a folder or URI names a local or mounted folder."""
    return "://" not in uri or uri.startswith("file://")


def below(uri: str, name: str) -> str:
    """A folder or file below a folder or URI; the options of a URI stay behind its path.

    >>> below("ck/", "dead"), below("s3://bucket/ck?region=x", "dead")
    ('ck/dead', 's3://bucket/ck/dead?region=x')
    """
    if "://" not in uri:
        return f"{uri.rstrip('/')}/{name}"
    parts = urlsplit(uri)
    return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{name}"))


def without_secrets(uri: str) -> str:
    """A URI without credentials, for messages.

    >>> without_secrets("s3://key:secret@bucket/ck?region=x"), without_secrets("ck")
    ('s3://bucket/ck?region=x', 'ck')
    """
    if "://" not in uri:
        return uri
    parts = urlsplit(uri)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _with_single_puts(uri: str) -> str:
    """S3 with small objects in one request instead of three."""
    if not uri.startswith("s3://") or "allow_delayed_open" in uri:
        return uri
    return f"{uri}{'&' if '?' in uri else '?'}allow_delayed_open=true"
