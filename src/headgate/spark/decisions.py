"""How engines agree on commits: of all engines that ever use a checkpoint, only one commits an epoch.

A *slot* is a file name that gets one final value: `commits/<epoch>.json`, `identity`. Where files can be created
exclusively, the first engine to create the file decides (`FirstFile`). `pyarrow.fs` has no conditional put for object
stores; there the engines agree with plain puts, reads and lists (`Ballots`).

**Ballots.** This is Disk Paxos (Gafni and Lamport, 2003) with the store as its one disk; a leader is an engine.

1. An engine takes over: it puts `claims/<ballot>` with a ballot higher than all it sees, and then lists the claims. If
   there is a higher one, it gives up.
2. It reads the newest slot, after its claim. If it has values, an earlier engine may have acted on that of the highest
   ballot: the engine decides the same value again, under its own ballot, before it acts on it.
3. To decide a value, it puts `<slot>.<ballot>` and then lists the claims. If there is no higher one, the value is
   decided. If there is one, the engine is superseded: it does not know whether its value counts, and stops. If the
   store does not answer, it does not know either, and repeats the epoch under a new name or stops.
4. Of several values of a slot, that of the highest ballot counts.

Why it is safe: let engine A decide a value under ballot *a*, and let *b > a* be the next ballot that decides. A saw no
claim *b* after it put its value, and B read the slot after it put its claim, so B saw the value of A and repeats it. By
induction every later value of the slot is the same. It needs a store whose reads and lists see every completed put
(S3 does), and no clocks. An old engine that wakes up after an hour does no harm: its value has a lower ballot, and it
sees the claim. The cost is a put and a list per epoch, instead of an existence check and a rename.

A ballot is `<generation>-<engine>-<number>`. The number rises with every value of an engine, so that a put that timed
out and arrives late never replaces a later one. Claims lower than one's own may be deleted; the highest never is.

Deleting: an engine lists the files that no epoch up to its own last decided one needs, then checks that there is no
higher claim (`is_newest`), and only then deletes them. A later engine writes its files after its claim.
"""

from __future__ import annotations

import re
import uuid
from typing import Protocol

from headgate.spark.storage import FileStorage, Storage

_BALLOT = re.compile(r"\.(\d{9}-[0-9a-f]{8}-\d{6})$")


class Superseded(Exception):
    """Another engine has decided, or has taken over: this one must stop."""


class Decisions(Protocol):
    """The slots of a checkpoint. Raises OSError if the storage does. Used by one thread, except for `files`."""

    def take_over(self) -> int:
        """Makes this the newest engine; returns its generation, higher than that of every earlier one.

        Superseded if another engine does the same right now.
        """
        ...

    def decide(self, slot: str, value: bytes) -> None:
        """Gives a slot its value; called after `take_over`. Superseded if it may have, or may get, another one."""
        ...

    def settle(self, slot: str, value: bytes | None = None) -> bytes | None:
        """The value of a slot, final from now on; a slot without a value gets `value`."""
        ...

    def is_newest(self) -> bool:
        """Whether no other engine has taken over."""
        ...

    def files(self, folder: str) -> dict[str, list[str]]:
        """The slots of a folder in order, each with its files; the last file has the value that counts."""
        ...


class FirstFile:
    """The engine that first creates the file of a slot decides it."""

    def __init__(self, storage: FileStorage) -> None:
        self._storage = storage
        self._generation: int | None = None

    def take_over(self) -> int:
        self._generation = self._written() + 1
        self._storage.write("generation", str(self._generation).encode())
        return self._generation

    def decide(self, slot: str, value: bytes) -> None:
        if not self._storage.create(slot, value):
            raise Superseded(slot)

    def settle(self, slot: str, value: bytes | None = None) -> bytes | None:
        if not self._storage.exists(slot) and (value is None or self._storage.create(slot, value)):
            return value
        return self._storage.read(slot)

    def is_newest(self) -> bool:
        return self._generation is None or self._generation == self._written()

    def files(self, folder: str) -> dict[str, list[str]]:
        return {name: [name] for name in self._storage.names(folder)}

    def _written(self) -> int:
        return int(self._storage.read("generation")) if self._storage.exists("generation") else 0


class Ballots:
    """Ballots over a store with plain puts, reads and lists; see above."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._engine = uuid.uuid4().hex[:8]
        self._claim = ""
        self._values = 0

    def take_over(self) -> int:
        known = self._storage.names("claims")
        generation = max((int(name.partition("-")[0]) for name in known), default=0) + 1
        self._claim = f"{generation:09d}-{self._engine}"
        self._storage.write(f"claims/{self._claim}", b"headgate")
        self._check("claims")
        for name in known:
            self._storage.delete(f"claims/{name}")
        return generation

    def decide(self, slot: str, value: bytes) -> None:
        assert self._claim, "an engine takes over before it decides"
        self._values += 1
        self._storage.write(f"{slot}.{self._claim}-{self._values:06d}", value)
        self._check(slot)

    def settle(self, slot: str, value: bytes | None = None) -> bytes | None:
        if not self._claim:
            self.take_over()
        folder, _, name = slot.rpartition("/")
        known = self.files(folder).get(name, [])
        if known:
            value = self._storage.read(_path(folder, known[-1]))
        if value is not None and not any(self._claim in file for file in known[-1:]):
            self.decide(slot, value)
        return value

    def is_newest(self) -> bool:
        return max(self._storage.names("claims"), default="") <= self._claim

    def files(self, folder: str) -> dict[str, list[str]]:
        found: dict[str, list[tuple[str, str]]] = {}
        for name in self._storage.names(folder):
            match = _BALLOT.search(name)
            # An earlier version wrote files without a ballot.
            slot, ballot = (name, "") if match is None else (name[: match.start()], match[1])
            found.setdefault(slot, []).append((ballot, name))
        return {slot: [name for _, name in sorted(found[slot])] for slot in sorted(found)}

    def _check(self, slot: str) -> None:
        if not self.is_newest():
            raise Superseded(slot)


def _path(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name
