"""What is kept of a query that failed: which operator raised what, and when."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a query was taken out of the network. `operator` and `detail` are empty if no operator is to blame."""

    query: str
    operator: str
    detail: str
    error: str
    at: float
    plan: str = ""
    """Which plan failed, so that a query that was written anew gets its chance after a restart."""

    def __str__(self) -> str:
        where = f" in {self.operator} ({self.detail})" if self.operator else ""
        return f"query {self.query} failed{where}: {self.error}"

    def state(self) -> dict[str, Any]:
        """All of it, JSON-able."""
        return asdict(self)


def text_of(error: BaseException) -> str:
    """An exception in one line: its kind and what it says."""
    said = str(error).strip().splitlines()
    return f"{type(error).__name__}: {said[0]}" if said else type(error).__name__
