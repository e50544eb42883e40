"""User-defined aggregates that are fine until a value of 1,000 or more comes, and then do harm."""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from tests.oracle.aggregates import Mean, State


class Raising(Mean):
    """Raises where rows come in."""

    def iterate(self, state: State, group: pa.Array, x: pa.Array) -> State:
        if (pc.max(x).as_py() or 0) >= 1000:
            raise RuntimeError("too hot")
        return super().iterate(state, group, x)


class RaisingAtTheEnd(Mean):
    """Raises where a window is put together."""

    def terminate(self, state: State) -> pa.Array:
        if (pc.max(state["total"]).as_py() or 0) >= 1000:
            raise RuntimeError("too much")
        return super().terminate(state)


class Hanging(Mean):
    """Never returns."""

    def iterate(self, state: State, group: pa.Array, x: pa.Array) -> State:
        while (pc.max(x).as_py() or 0) >= 1000:
            pass
        return super().iterate(state, group, x)


class TooFew(Mean):
    """Forgets a group."""

    def terminate(self, state: State) -> pa.Array:
        return super().terminate(state).slice(1)


class Stateless(Mean):
    state: ClassVar = {}  # type: ignore[assignment]


HARMS = {
    Raising: "iterate failed: RuntimeError: too hot",
    RaisingAtTheEnd: "terminate failed: RuntimeError: too much",
    Hanging: "ran longer than its limit of 2 s",
}
