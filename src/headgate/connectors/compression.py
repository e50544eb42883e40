"""Compression of text files, with the endings by which Spark recognizes it."""

from __future__ import annotations

import bz2
import gzip
import zlib
from collections.abc import Callable, Mapping

from headgate.graph.options import OptionDeclaration

COMPRESSION = OptionDeclaration(
    "compression",
    "compression of the files",
    choices=("none", "uncompressed", "gzip", "bzip2", "deflate"),
    default="none",
)
_CODECS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    # Without a timestamp, so that an epoch that is published again has the same bytes.
    "gzip": (".gz", lambda data: gzip.compress(data, mtime=0)),
    "bzip2": (".bz2", bz2.compress),
    "deflate": (".deflate", zlib.compress),
}
_PLAIN: tuple[str, Callable[[bytes], bytes]] = ("", lambda data: data)


def ending_of(options: Mapping[str, str]) -> str:
    """What the compression adds to the name of a file."""
    return _CODECS.get(options.get(COMPRESSION.name, "none"), _PLAIN)[0]


def compressor(options: Mapping[str, str]) -> Callable[[bytes], bytes]:
    """Compresses the bytes of a file."""
    return _CODECS.get(options.get(COMPRESSION.name, "none"), _PLAIN)[1]
