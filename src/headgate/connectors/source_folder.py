"""Folders whose files are read as streams: their names as given, and how Spark names the files in them."""

from __future__ import annotations

import os
import posixpath
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from headgate.connectors.contract import quoted

_FILE = "_metadata.file_path"


@dataclass(frozen=True)
class SourceFolder:
    """A folder: the file system it names (`s3a://bucket`, `file:`; empty if it names none) and its absolute path."""

    system: str
    path: str

    @property
    def given(self) -> str:
        """A path that Spark takes, the same for every way to write it."""
        return f"{self.system}{self.path}"

    @property
    def uri(self) -> str:
        """The same for two paths of a folder, if the default file system is this machine's."""
        return f"{self.system or 'file:'}{self.path.rstrip('/')}"

    @property
    def local(self) -> str | None:
        """The path, if it is on this machine or may be; None if not."""
        return self.path if self.system in ("", "file:") else None

    @property
    def is_file(self) -> bool:
        return self.local is not None and os.path.isfile(self.path)

    def test(self, local: bool) -> str:
        """Spark SQL that is true for the files of this folder and of those below it, among folders that are not in each
        other. `local`: this machine's is the default file system."""
        below = quoted(_encoded(self.path.rstrip("/")) + "/")
        if self.system == "file:" or (local and not self.system):
            # One or three slashes, depending on which of Hadoop's classes lists the folder.
            return f"(startswith({_FILE}, 'file:{below}') OR startswith({_FILE}, 'file://{below}'))"
        if "://" in self.system and not self.system.endswith("//"):
            return f"startswith({_FILE}, '{quoted(self.system)}{below}')"
        # The default file system's name is not known here; it ends with the first single slash.
        return f"startswith(regexp_replace({_FILE}, '^[^:/]+:(//[^/]*)?', ''), '{below}')"


def folder_of(path: str) -> SourceFolder:
    """A folder by its path or URI.

    >>> folder_of("file:///data/in/"), folder_of("s3a://data/in//a")
    (SourceFolder(system='file:', path='/data/in'), SourceFolder(system='s3a://data', path='/in/a'))
    """
    scheme, sign, rest = path.partition(":/")
    if not sign or "/" in scheme:
        return SourceFolder("", os.path.abspath(path))
    if not rest.startswith("/"):
        return SourceFolder(f"{scheme}:", _normal("/" + rest))
    authority, _, below = rest[1:].partition("/")
    system = f"{scheme}:" if scheme == "file" else f"{scheme}://{authority}"
    return SourceFolder(system, _normal("/" + below))


def all_of(paths: Sequence[str]) -> str:
    """A pattern for several folders: what they have in common, then each one's rest.

    >>> all_of(["/data/in/a", "/data/in/b/c"])
    '/data/in/{a,b/c}'
    """
    parts = [path.split("/") for path in paths]
    shared = 0
    while all(len(part) > shared + 1 and part[shared] == parts[0][shared] for part in parts):
        shared += 1
    rest = ",".join("/".join(part[shared:]) for part in parts)
    return f"{'/'.join(parts[0][:shared])}/{{{rest}}}"


def default_is_local(spark: Any) -> bool:
    """Whether a path without a scheme is on this machine."""
    try:
        name = spark.sparkContext._jsc.hadoopConfiguration().get("fs.defaultFS", "file:///")
    except Exception:
        # Spark Connect does not show it.
        return False
    return str(name).startswith("file:")


def _normal(path: str) -> str:
    return posixpath.normpath("/" + path.lstrip("/"))


def _encoded(path: str) -> str:
    """A path as Spark reports it: a URI as Java writes it, with letters of any alphabet unchanged.

    >>> _encoded("/data/a b/ü")
    '/data/a%20b/ü'
    """
    return "".join(c if _unchanged(c) else quote(c, safe="/-_.!~*'():@&=+$,;") for c in path)


def _unchanged(character: str) -> bool:
    return ord(character) > 127 and unicodedata.category(character) not in ("Zs", "Zl", "Zp", "Cc")
