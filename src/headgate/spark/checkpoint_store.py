"""The store of a network that runs under a checkpoint: spilled batches and snapshot parts in one place."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from headgate.spark.bundle import Bundle
from headgate.spark.checkpoint import Checkpoint
from headgate.spark.messages import Place

# A bundle with less than this share still needed is abandoned: its live parts move to the new bundle.
_SPARSE = 0.25

_NOTHING: tuple[str, list[pa.RecordBatch]] = ("", [])


class CheckpointStore:
    """Keeps the parts of one replica (the `Store` of `headgate.runtime`).

    A batch spilled while an epoch runs is written to a separate file at once, to free memory; the parts of a
    snapshot are gathered in one bundle, with the manifest behind them. Parts that a manifest names are not written
    again. `discard` forgets a part and removes no file, as an older manifest may still name it; `Checkpoint.clean`
    removes unnamed files. The network may run, spill and discard between its snapshot and `close_bundle`.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._places: dict[str, Place] = {}
        self._sizes: dict[str, int] = {}
        self._epoch = 0
        self._attempt = ""
        self._spilled = 0
        self._bundle: Bundle | None = None
        self._pending: dict[str, pa.Table] = {}
        self._discarded: set[str] = set()
        self._last = _NOTHING
        self._lock = threading.Lock()

    def adopt(self, manifest: Mapping[str, Any]) -> None:
        """Takes over the parts of a manifest."""
        with self._lock:
            self._places = {}
            self._sizes = {}
            for file, parts in manifest["places"].items():
                for key, (offset, length, crc) in parts.items():
                    self._note(key, Place(file, offset, length, crc))

    def begin(self, epoch: int, attempt: str) -> None:
        """Everything written after this call belongs to this attempt at an epoch."""
        self._epoch = epoch
        self._attempt = attempt
        self._spilled = 0

    def write(self, key: str, batches: Sequence[pa.RecordBatch]) -> None:
        table = pa.Table.from_batches(batches)
        with self._lock:
            if self._bundle is not None:
                self._bundle.add(key, table)
                self._pending[key] = table
                return
            self._spilled += 1
            file = f"parts/{self._epoch:012d}-{self._attempt}-{self._spilled}.bin"
        bundle = Bundle(file, self._checkpoint.write)
        bundle.add(key, table)
        bundle.close()
        with self._lock:
            for part, place in bundle.places:
                self._note(part, place)

    def read(self, key: str, index: int) -> pa.RecordBatch:
        with self._lock:
            batches = self._pending[key].to_batches() if key in self._pending else None
            if batches is None and self._last[0] == key:
                batches = self._last[1]
            place = self._places.get(key)
        if batches is None:
            assert place is not None, f"part {key} was never written"
            batches = self._checkpoint.read(place).to_batches()
            with self._lock:
                # The batches of a part are read one after the other.
                self._last = (key, batches) if index + 1 < len(batches) else _NOTHING
        return batches[index]

    def discard(self, key: str) -> None:
        with self._lock:
            if self._bundle is None:
                self._places.pop(key, None)
            else:
                # The snapshot in progress may need it.
                self._discarded.add(key)

    def open_bundle(self) -> None:
        """Begins a snapshot: parts written until `close_bundle` go into one file."""
        with self._lock:
            self._bundle = self._checkpoint.bundle("parts", self._epoch, self._attempt)

    def close_bundle(self, manifest: Mapping[str, Any]) -> tuple[Place, tuple[str, ...]]:
        """Ends a snapshot: adds the manifest with the places of its parts, and makes all of them durable.

        Returns the place of the manifest and all files that it needs.
        """
        with self._lock:
            bundle, self._bundle = self._bundle, None
            assert bundle is not None
            needed = list(manifest["parts"])
            self._move_sparse(bundle, needed)
            known = {**self._places, **dict(bundle.places)}
            by_file: dict[str, dict[str, list[int]]] = {}
            for key in needed:
                place = known[key]
                by_file.setdefault(place.file, {})[key] = [place.offset, place.length, place.crc]
            text = json.dumps({**manifest, "places": by_file}, separators=(",", ":"))
            found = bundle.add_bytes("manifest", text.encode())
            bundle.close()
            self._pending.clear()
            sizes, self._places, self._sizes = self._sizes, {}, {}
            for key, place in known.items():
                if key not in self._discarded:
                    self._places[key] = place
                    self._sizes[place.file] = sizes.get(place.file, found.offset + found.length)
            self._discarded.clear()
            return found, tuple({found.file: None, **by_file})

    def _move_sparse(self, bundle: Bundle, needed: Sequence[str]) -> None:
        """Copies the needed parts out of files that are mostly obsolete, so that these files can be removed."""
        written = {key for key, _ in bundle.places}
        live: dict[str, list[str]] = {}
        for key in needed:
            if key not in written:
                live.setdefault(self._places[key].file, []).append(key)
        for file, keys in live.items():
            if sum(self._places[key].length for key in keys) < _SPARSE * self._sizes[file]:
                for key in keys:
                    bundle.add_bytes(key, self._checkpoint.read_bytes(self._places[key]))

    def _note(self, key: str, place: Place) -> None:
        self._places[key] = place
        self._sizes[place.file] = max(self._sizes.get(place.file, 0), place.offset + place.length)
