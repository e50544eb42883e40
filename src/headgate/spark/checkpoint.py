"""The checkpoint: bundles of Arrow and JSON parts and one small commit file an epoch, on anything `pyarrow.fs` opens.

    commits/<epoch>.json          the content of the epoch; its atomic appearance is the commit
    parts/<epoch>-<attempt>.bin   the snapshot parts that are new in this epoch, and the manifest of the snapshot
    outbox/<epoch>-<attempt>.bin  its results, until the sinks have them
    plans/<name>                  a plan that commits name, and tables/<name> its static tables; named by their content
    published/<epoch>             the sinks have all results up to this epoch
    identity, generation          its name, and the number of its newest driver

A part is written once and named by every later manifest that still needs it. Files that no commit names are removed.
Every attempt at an epoch writes under unique names, so that a task that outlives its driver cannot touch the files of
the next attempt.

`Storage` (`storage.py`) states what a file system or an object store must guarantee. `Decisions` (`decisions.py`) lets
only one driver commit an epoch, and states what another driver may delete. In an object store the name of a commit ends
in a ballot, and `claims/` holds the ballot of the newest driver instead of `generation`.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import uuid
import zlib
from collections.abc import Collection, Sequence
from typing import Any

import pyarrow as pa
from pyarrow import fs

from headgate.spark import format_1
from headgate.spark.bundle import Bundle
from headgate.spark.commit import FORMAT, READABLE, Commit
from headgate.spark.decisions import Ballots, Decisions, FirstFile, Superseded
from headgate.spark.messages import Place
from headgate.spark.storage import UNFINISHED, FileStorage, open_storage, without_secrets

_FOLDERS = ("commits", "parts", "outbox", "plans", "tables", "published")
# A commit is "<checksum> <JSON>".
_CHECKSUM = 8
_COMMIT = ".json"


class CheckpointError(ValueError):
    """The checkpoint cannot be read or written; the message says which file and what to do."""


class Checkpoint:
    """A folder that holds an engine's state. Cheap to make: workers and the driver each have their own.

    One driver writes commits; workers write only bundles, under unique names. `files` replaces the file system that the
    URI names.
    """

    def __init__(self, uri: str, files: fs.FileSystem | None = None) -> None:
        self.uri = uri
        self.name = without_secrets(uri)
        """The URI without secrets, for messages."""
        try:
            self._storage = open_storage(uri, files)
            self._storage.prepare(_FOLDERS)
        except (OSError, pa.ArrowException) as error:
            raise CheckpointError(f"checkpoint {self.name}: cannot be opened: {_reason(error)}") from error
        self._decisions: Decisions = (
            FirstFile(self._storage) if isinstance(self._storage, FileStorage) else Ballots(self._storage)
        )
        # The last epoch that this driver knows to be committed (-1: none), once it has taken over.
        self._last: int | None = None
        self._published: list[str] | None = None
        # The plans that this driver has saved since the plan of the newest commit, and the tables of plans.
        self._plans: list[str] = []
        self._plan_tables: dict[str, list[str]] = {}
        self._lock = threading.Lock()
        self.saving = threading.RLock()
        """Held while a plan and its tables are saved, so that `clean` does not remove a table that has no plan yet."""

    @property
    def absolute_uri(self) -> str:
        """The URI as an absolute one: hosts and executors have other working directories than the driver."""
        return self.uri if "://" in self.uri else os.path.abspath(self.uri)

    def bundle(self, folder: str, epoch: int, attempt: str) -> Bundle:
        """A new file in a folder, which an attempt at an epoch fills."""
        return Bundle(f"{folder}/{epoch:012d}-{attempt}.bin", self.write)

    def write(self, file: str, data: bytes | pa.Buffer) -> None:
        """Makes a file appear whole or not at all."""
        try:
            self._storage.write(file, data)
        except OSError as error:
            raise self._unwritten(file, error) from error

    def read(self, place: Place) -> pa.Table:
        """One part. Its checksum is verified."""
        with pa.ipc.open_stream(pa.py_buffer(self.read_bytes(place))) as reader:
            return reader.read_all()

    def read_bytes(self, place: Place) -> bytes:
        """The bytes at a place. Their checksum is verified."""
        try:
            data = self._storage.read_at(place.file, place.offset, place.length)
        except OSError as error:
            raise self._unread(place.file, error) from error
        if len(data) != place.length or zlib.crc32(data) != place.crc:
            raise CheckpointError(self.damaged(place.file, "its checksum is wrong"))
        return data

    def manifest(self, place: Place) -> dict[str, Any]:
        """The manifest of a snapshot, with the places of its parts under "places"."""
        found: dict[str, Any] = json.loads(self.read_bytes(place))
        return format_1.manifest(found) if found.get("format") == format_1.FORMAT else found

    def commit(self, commit: Commit) -> None:
        """Commits an epoch in one atomic step. `next_generation`, if it is used, must be called before."""
        body = commit.text().encode()
        slot = _slot(commit.epoch)
        try:
            self._decisions.decide(f"commits/{slot}", b"%08x %s" % (zlib.crc32(body), body))
        except Superseded as error:
            raise CheckpointError(
                f"checkpoint {self.name}: epoch {commit.epoch} has been committed by another run; is a second engine"
                " using the same checkpoint? Stop one of them, or give it a folder of its own"
            ) from error
        except OSError as error:
            raise self._unwritten(f"commits/{slot}", error) from error
        self._last = commit.epoch

    def newest(self) -> Commit | None:
        """The last epoch that was committed, or None in a new folder."""
        found = self._commit_files()
        return self._load(found[max(found)]) if found else None

    def load(self, epoch: int) -> Commit:
        """One commit."""
        slot = _slot(epoch)
        return self._load(self._commit_files().get(slot, [slot]))

    def commits(self) -> list[Commit]:
        """All commits that are still kept, oldest first."""
        return [self._load(files) for files in self._commit_files().values()]

    def text(self, file: str) -> str | None:
        """The text of a small file of the checkpoint, or None if there is none."""
        try:
            return self.content(file).decode() if self.exists(file) else None
        except UnicodeDecodeError as error:
            raise CheckpointError(self.damaged(file, _reason(error))) from error

    def content(self, file: str) -> bytes:
        """The bytes of a file, which must exist."""
        try:
            return self._storage.read(file)
        except OSError as error:
            raise self._unread(file, error) from error

    def exists(self, file: str) -> bool:
        """Whether there is a file of this name."""
        try:
            return self._storage.exists(file)
        except OSError as error:
            raise self._unread(file, error) from error

    def save_plan(self, name: str, data: bytes) -> None:
        """Writes a plan under the hash of its content. `clean` keeps it until a later plan is committed."""
        with self.saving:
            self.write(f"plans/{name}", data)
            self._plans.append(name)

    def saved_plan(self, name: str) -> dict[str, Any]:
        """The JSON of a plan."""
        file = f"plans/{name}"
        data = self.content(file)
        if hashlib.sha256(data).hexdigest()[:16] != name:
            raise CheckpointError(self.damaged(file, "its checksum is wrong"))
        found: dict[str, Any] = json.loads(data)
        if found["format"] not in READABLE:
            raise CheckpointError(self.unknown_format(file, found["format"]))
        return found

    def identity(self) -> str:
        """A name for everything written under this checkpoint; the same after every restart."""
        try:
            known = self._decisions.settle("identity", uuid.uuid4().hex[:8].encode())
            assert known is not None
            return known.decode()
        except Superseded as error:
            raise self._taken() from error
        except UnicodeDecodeError as error:
            raise CheckpointError(self.damaged("identity", _reason(error))) from error
        except OSError as error:
            raise self._unwritten("identity", error) from error

    def next_generation(self) -> int:
        """Takes over the checkpoint; returns a number higher than that of every earlier driver.

        Called before `newest`: the commit that `newest` then returns is final, even if an earlier driver still runs.
        """
        try:
            generation = self._decisions.take_over()
            self._last = None
            slots = list(self._commit_files())
            if slots:
                self._decisions.settle(f"commits/{slots[-1]}")
            self._last = _epoch(slots[-1]) if slots else -1
            return generation
        except Superseded as error:
            raise self._taken() from error
        except ValueError as error:
            raise CheckpointError(self.damaged("generation", _reason(error))) from error
        except OSError as error:
            raise self._unwritten("generation", error) from error

    def _taken(self) -> CheckpointError:
        return CheckpointError(
            f"checkpoint {self.name}: a second engine is starting on it; stop one of them, or give it a folder of its"
            " own"
        )

    def probe(self) -> None:
        """CheckpointError if the folder cannot be written, or its newest commit cannot be read."""
        self.write("probe", b"headgate")
        self._delete("probe")
        self.newest()

    def published(self) -> int:
        """The last epoch whose results all sinks have; -1 if none."""
        with self._lock:
            names = self._known_published()
        return int(names[-1]) if names else -1

    def publish(self, epoch: int) -> None:
        """Records that the sinks have the results of every epoch up to this one."""
        name = f"{epoch:012d}"
        with self._lock:
            before = self._known_published()
            self.write(f"published/{name}", b"")
            self._published = [max([name, *before])]
            for old in before:
                if old < name:
                    self._delete(f"published/{old}")

    def _known_published(self) -> list[str]:
        """The files in published/, listed only once, since only one driver publishes."""
        if self._published is None:
            self._published = self._names("published")
        return self._published

    def clean(self, keep: int = 2) -> None:
        """Removes commits except the newest `keep` and the unpublished ones, and files that no kept commit names.

        Does nothing if another driver has taken over. May be called on another thread than the one that commits, and
        while hosts write.
        """
        found = self._commit_files()
        slots = list(found)
        published = self.published()
        old = [slot for slot in slots[:-keep] if _epoch(slot) <= published]
        doomed = [f"commits/{file}" for slot in old for file in found[slot]]
        doomed += [f"commits/{file}" for slot in slots if slot not in old for file in found[slot][:-1]]
        doomed += [file for files in self._files("").values() for file in files[:-1]]
        kept = [self._load(found[slot]) for slot in slots if slot not in old]
        if not kept:
            return
        newest = kept[-1].epoch
        named = {file for commit in kept for file in commit.files}
        named |= {place.file for commit in kept for _, place in commit.outbox if commit.epoch > published}
        for folder in ("parts", "outbox"):
            for name in self._names(folder, unfinished=True):
                # A host may be writing a file of a later epoch right now.
                if f"{folder}/{name}" not in named and int(name.split("-")[0]) <= newest:
                    doomed.append(f"{folder}/{name}")
        for name in self._names("commits", unfinished=True):
            if name.endswith(UNFINISHED) and int(name.split(".")[0]) <= newest:
                doomed.append(f"commits/{name}")
        with self.saving:
            doomed += self._unneeded_plans(kept)
            if self._decisions.is_newest():
                for file in doomed:
                    self._delete(file)

    def _unneeded_plans(self, kept: Sequence[Commit]) -> list[str]:
        """Plans that neither a commit nor the next epoch needs, and tables that no plan needs."""
        if kept[-1].plan in self._plans:
            del self._plans[: self._plans.index(kept[-1].plan)]
        needed = {commit.plan for commit in kept if commit.plan} | set(self._plans)
        doomed = self._except("plans", needed)
        if self._names("tables", unfinished=True):
            known = self._plan_tables
            plans = [name for name in self._names("plans") if f"plans/{name}" not in doomed]
            self._plan_tables = {name: known.get(name) or self.saved_plan(name)["tables"] for name in plans}
            doomed += self._except("tables", {table for tables in self._plan_tables.values() for table in tables})
        return doomed

    def _except(self, folder: str, needed: Collection[str]) -> list[str]:
        """The files of a folder that are not needed."""
        return [f"{folder}/{name}" for name in self._names(folder, unfinished=True) if name not in needed]

    def _delete(self, file: str) -> None:
        try:
            self._storage.delete(file)
        except OSError as error:
            raise self._unwritten(file, error) from error

    def _commit_files(self) -> dict[str, list[str]]:
        """The files of each commit, in order; the last file of a commit counts.

        A driver sees only the commits that it knows of: a later one belongs to another driver and may not be final.
        """
        found = {slot: files for slot, files in self._files("commits").items() if slot.endswith(_COMMIT)}
        return {slot: found[slot] for slot in found if self._last is None or _epoch(slot) <= self._last}

    def _files(self, folder: str) -> dict[str, list[str]]:
        try:
            return self._decisions.files(folder)
        except OSError as error:
            raise self._unlisted(folder, error) from error

    def _names(self, folder: str, unfinished: bool = False) -> list[str]:
        """The files of a folder, in order; with `unfinished` also those that a crash left half-written."""
        try:
            return self._storage.names(folder, unfinished)
        except OSError as error:
            raise self._unlisted(folder, error) from error

    def _load(self, files: Sequence[str]) -> Commit:
        """The commit with these files."""
        file = f"commits/{files[-1]}"
        try:
            data = self.content(file)
            body = data[_CHECKSUM + 1 :]
            crc = zlib.crc32(body)
            if data[: _CHECKSUM + 1] != b"%08x " % crc:
                raise ValueError("its checksum is wrong")
            found = json.loads(body)
            if found["format"] == format_1.FORMAT:
                found = format_1.as_format_2(found, Place(file, _CHECKSUM + 1, len(body), crc))
            elif found["format"] not in READABLE:
                raise CheckpointError(self.unknown_format(file, found["format"]))
            return Commit.of(found)
        except CheckpointError:
            raise
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(self.damaged(file, _reason(error))) from error

    def unknown_format(self, file: str, format_: object) -> str:
        return (
            f"checkpoint {self.name}: {file} has format {format_}; this Headgate reads formats {format_1.FORMAT} to"
            f" {FORMAT}. Use the version of Headgate that wrote it, or give a new checkpoint folder to start over from"
            " the sources"
        )

    def _unwritten(self, file: str, error: OSError) -> CheckpointError:
        return CheckpointError(
            f"checkpoint {self.name}: {file} cannot be written: {_reason(error)}; nothing of this epoch was"
            " committed, and it is repeated when the folder can be written"
        )

    def _unread(self, file: str, error: OSError) -> CheckpointError:
        """The error for a file that cannot be read: a missing file is damage, unreachable storage is not."""
        if isinstance(error, FileNotFoundError):
            return CheckpointError(self.damaged(file, _reason(error)))
        return CheckpointError(
            f"checkpoint {self.name}: {file} cannot be read: {_reason(error)}; nothing is lost: start again when it can"
        )

    def _unlisted(self, folder: str, error: OSError) -> CheckpointError:
        return CheckpointError(f"checkpoint {self.name}: {folder} cannot be listed: {_reason(error)}")

    def damaged(self, file: str, reason: str) -> str:
        """The message for a file that cannot be used."""
        return (
            f"checkpoint {self.name}: {file} is damaged ({reason}); restore it from a copy, or give a new checkpoint"
            " folder to start over from the sources"
        )


def _slot(epoch: int) -> str:
    return f"{epoch:012d}{_COMMIT}"


def _epoch(slot: str) -> int:
    return int(slot.removesuffix(_COMMIT))


def _reason(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
