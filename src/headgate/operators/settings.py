"""The settings of live operators: the rows of the static tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa


@dataclass(frozen=True)
class Settings:
    """Fixed for the life of a live operator, except `tables`: the rows of each static table by name.

    The session's time zone is not a setting: expressions that depend on it carry it.
    """

    tables: Mapping[str, pa.Table] = field(default_factory=dict)
