"""What live operators need from outside: the rows of the static tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa


@dataclass(frozen=True)
class Settings:
    """Fixed for the life of a live operator, but for `tables`: the rows of each static table by name.

    The session's time zone is no setting: expressions that depend on it carry it.
    """

    tables: Mapping[str, pa.Table] = field(default_factory=dict)
