"""Whether the process of a network can still work. A user's function may have used up what the process may have
(descriptors, threads), closed the host's descriptors, or lowered the limits of the process.

Such a process ends, and its supervisor forks another: a restored network loses nothing. Whatever fails in an unfit
process says nothing about the query in which it fails.
"""

from __future__ import annotations

import errno
import mmap
import os
import threading
from collections.abc import Callable
from contextlib import suppress

UNFIT = 71
"""The exit code of a process that could not work any more."""

CLOSED = "the descriptors of its host are closed"
"""Why a process is unfit whose connection to its supervisor is gone."""

_NO_THREAD = "can't start new thread"

SCARCE = {os.strerror(errno.EMFILE), os.strerror(errno.ENFILE), _NO_THREAD}
"""The reasons that a process is unfit because there are too many descriptors or threads."""

_SIGNS = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EFBIG, errno.EBADF, errno.ENOTSOCK}
"""Errors of the host's own work that come from the state of its process. A full disk or a lost file is none."""

_DESCRIPTORS, _BYTES = 8, 16 << 20
"""What a host needs to go on: descriptors, and bytes of memory that can be reserved."""


def sign_of(error: BaseException | None) -> str:
    """What an error of the host's own work, or one of its causes, says about the process; empty if nothing.

    >>> sign_of(OSError(errno.EMFILE, "Too many open files")), sign_of(OSError(errno.ENOSPC, "No space left on device"))
    ('Too many open files', '')
    """
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, OSError) and error.errno in _SIGNS:
            return os.strerror(error.errno)
        if isinstance(error, MemoryError):
            return "out of memory"
        if isinstance(error, RuntimeError) and str(error).startswith(_NO_THREAD):
            return _NO_THREAD
        error = error.__cause__ or error.__context__
    return ""


class Fitness:
    """Tells whether this process can go on.

    `own` is a descriptor that the host always has open. `end` is called with the reason if the process cannot go on,
    and must not return.
    """

    def __init__(self, own: int, end: Callable[[str], None]) -> None:
        self._own = own
        self._file = _file(own)
        self._end = end

    def check(self, error: BaseException | None = None) -> None:
        """Ends the process if an error of the host's own work, or else a trial, says that it cannot go on."""
        reason = sign_of(error) or self.lack()
        if reason:
            self._end(reason)

    def lack(self) -> str:
        """What a trial finds missing; empty if nothing."""
        if self.closed:
            return CLOSED
        taken: list[int] = []
        try:
            taken.extend(os.dup(self._own) for _ in range(_DESCRIPTORS))
            trial = threading.Thread(target=_nothing, daemon=True)
            trial.start()
            trial.join()
            mmap.mmap(-1, _BYTES).close()
        except OSError as error:
            return os.strerror(error.errno or 0)
        except (MemoryError, RuntimeError) as error:
            return sign_of(error)
        finally:
            for descriptor in taken:
                os.close(descriptor)
        return ""

    @property
    def closed(self) -> bool:
        """Whether the host's own descriptor is closed, or has become another file."""
        return _file(self._own) != self._file


def _file(descriptor: int) -> tuple[int, int] | None:
    with suppress(OSError):
        found = os.fstat(descriptor)
        return found.st_dev, found.st_ino
    return None


def _nothing() -> None:
    pass
