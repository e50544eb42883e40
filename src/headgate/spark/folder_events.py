"""Waits until something is added to, or removed from, folders: by the events of the operating system (inotify), which
come at once and cost nothing while nothing happens.

Only Linux has them, and on network file systems they report the changes of this machine alone: whoever waits must look
now and then, too.
"""

from __future__ import annotations

import ctypes
import os
import select
import sys
from collections.abc import Iterable
from contextlib import suppress

# From <sys/inotify.h>.
_MOVED_FROM, _MOVED_TO, _CREATE, _DELETE, _ONLYDIR = 0x40, 0x80, 0x100, 0x200, 0x01000000
_CHANGES = _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _ONLYDIR
_BUFFER = 1 << 16


class FolderEvents:
    """Changes of the folders given to `watch`. Used by one thread, except `wake`, which ends a wait.

    Where the operating system has no events or refuses more of them, `wait` only waits.
    """

    def __init__(self) -> None:
        self._woken, self._wake = os.pipe()
        self._libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
        self._events = -1 if self._libc is None else self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._woken, select.POLLIN)
        if self._events >= 0:
            self._poll.register(self._events, select.POLLIN)

    @property
    def available(self) -> bool:
        """Whether the operating system reports changes of folders."""
        return self._events >= 0

    def watch(self, folders: Iterable[str]) -> None:
        """Watches these folders from now on, in addition to those before; again, if one was removed and made anew."""
        if self._libc is not None and self.available:
            for folder in folders:
                self._libc.inotify_add_watch(self._events, os.fsencode(folder), _CHANGES)

    def wait(self, seconds: float) -> bool:
        """Waits until a folder changes, at most so long; whether one has changed since the last call."""
        ready = dict(self._poll.poll(1000 * seconds))
        return self._events in ready and self._drained()

    def wake(self) -> None:
        """Ends the wait of another thread, and all later ones."""
        os.write(self._wake, b"\0")

    def close(self) -> None:
        """Releases the descriptors; no other method may be called after it."""
        for descriptor in (self._woken, self._wake, self._events):
            if descriptor >= 0:
                os.close(descriptor)

    def _drained(self) -> bool:
        found = False
        with suppress(BlockingIOError):
            while os.read(self._events, _BUFFER):
                found = True
        return found
