"""The store of a network that runs under a checkpoint: spilled batches and snapshot parts in one place."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

import pyarrow as pa

from headgate.spark.checkpoint import Bundle, Checkpoint, Place

# A bundle with less than this share still needed is abandoned: its live parts move to the new bundle.
_SPARSE = 0.25


class CheckpointStore:
    """Keeps the parts of one replica (the `Store` of `headgate.runtime`).

    A batch spilled while an epoch runs is written to a file of its own at once, to free memory; the parts of a
    snapshot are gathered in one bundle. Parts that a commit names are never written again. `discard` removes nothing,
    as an older commit may still name the part; `Checkpoint.clean` removes unnamed files.
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
        self._lock = threading.Lock()

    def adopt(self, places: dict[str, Place]) -> None:
        """Takes over the parts that a commit names."""
        with self._lock:
            self._places = dict(places)
            self._sizes = {}
            for place in places.values():
                self._sizes[place.file] = max(self._sizes.get(place.file, 0), place.offset + place.length)

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
        bundle = Bundle(self._checkpoint, file)
        bundle.add(key, table)
        bundle.close()
        with self._lock:
            self._note(bundle)

    def read(self, key: str, index: int) -> pa.RecordBatch:
        with self._lock:
            pending = self._pending.get(key)
            place = self._places.get(key)
        if pending is None:
            assert place is not None, f"part {key} was never written"
            pending = self._checkpoint.read(place)
        batch: pa.RecordBatch = pending.to_batches()[index]
        return batch

    def discard(self, key: str) -> None:
        """Does nothing: see the class."""

    def open_bundle(self) -> None:
        """Begins a snapshot: parts written until `close_bundle` go into one file."""
        with self._lock:
            self._bundle = self._checkpoint.bundle("parts", self._epoch, self._attempt)

    def close_bundle(self, needed: Iterable[str]) -> dict[str, Place]:
        """Ends a snapshot that needs these parts: makes them durable and returns their places."""
        with self._lock:
            bundle, self._bundle = self._bundle, None
            assert bundle is not None
            written = {key for key, _ in bundle.places}
            keys = list(needed)
            live: dict[str, int] = {}
            for key in keys:
                if key not in written:
                    place = self._places[key]
                    live[place.file] = live.get(place.file, 0) + place.length
            for key in keys:
                if key not in written and live[self._places[key].file] < _SPARSE * self._sizes[self._places[key].file]:
                    bundle.add(key, self._checkpoint.read(self._places[key]))
            bundle.close()
            self._note(bundle)
            self._pending.clear()
            self._places = {key: self._places[key] for key in keys}
            return dict(self._places)

    def _note(self, bundle: Bundle) -> None:
        for key, place in bundle.places:
            self._places[key] = place
            self._sizes[place.file] = max(self._sizes.get(place.file, 0), place.offset + place.length)
