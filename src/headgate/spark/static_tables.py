"""Static tables in the checkpoint: one Arrow file each, named by its content, so that all plans share it."""

from __future__ import annotations

import hashlib
from weakref import WeakValueDictionary, ref

import pyarrow as pa

from headgate.spark.checkpoint import Checkpoint, CheckpointError

# The names of tables that this process has saved, by identity, while the table lives: hashing takes time.
_names: dict[int, tuple[ref[pa.Table], str]] = {}
# The tables that this process has loaded, while some plan holds them.
_loaded: WeakValueDictionary[tuple[str, str], pa.Table] = WeakValueDictionary()


def save_table(checkpoint: Checkpoint, table: pa.Table) -> str:
    """Writes a table, unless it is there already, and returns its name."""
    known = _names.get(id(table))
    if known is not None and known[0]() is table and checkpoint.exists(f"tables/{known[1]}"):
        return known[1]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    name = save_bytes(checkpoint, sink.getvalue())
    _names[id(table)] = (ref(table), name)
    return name


def save_bytes(checkpoint: Checkpoint, data: bytes | pa.Buffer) -> str:
    """Writes a file that plans share, and returns its name."""
    name = hashlib.sha256(data).hexdigest()[:16]
    checkpoint.write(f"tables/{name}", data)
    return name


def load_bytes(checkpoint: Checkpoint, name: str) -> bytes:
    """A file that plans share; its content is compared with its name."""
    data = checkpoint.content(f"tables/{name}")
    if hashlib.sha256(data).hexdigest()[:16] != name:
        raise CheckpointError(checkpoint.damaged(f"tables/{name}", "its checksum is wrong"))
    return data


def load_table(checkpoint: Checkpoint, name: str) -> pa.Table:
    """A saved table; the same object as long as it is in use."""
    found = _loaded.get((checkpoint.uri, name))
    if found is None:
        data = load_bytes(checkpoint, name)
        with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
            found = _loaded[checkpoint.uri, name] = reader.read_all()
    return found
