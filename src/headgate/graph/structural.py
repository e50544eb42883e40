"""Immutable data with structural equality: equality and hash by a canonical text."""

from __future__ import annotations

from dataclasses import fields
from functools import cached_property
from typing import Any


class Structural:
    """For frozen dataclasses (with eq=False). The hash is kept, since such data is looked up once per batch."""

    @cached_property
    def text(self) -> str:
        """A canonical spelling: equal things have equal texts, and sorting by it is stable over runs."""
        raise NotImplementedError

    @cached_property
    def _hash(self) -> int:
        return hash(self.text)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Structural) and self._hash == other._hash and self.text == other.text

    def __getstate__(self) -> dict[str, Any]:
        # Cached values are not pickled: the hash of a text differs between processes.
        return {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]
