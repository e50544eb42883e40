"""The registry of live operators: each is registered, where it is defined, for the nodes that it implements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from headgate.graph.operators import Operator
from headgate.operators.contract import LiveOperator
from headgate.operators.settings import Settings

Make = Callable[[Any, Settings], LiveOperator]
"""Creates a live operator without state from a node and the settings."""

_Made = TypeVar("_Made", bound=Make)
_MAKERS: dict[type[Operator], list[tuple[Callable[[Any], bool], Make]]] = {}


def implements(node: type[Operator], when: Callable[[Any], bool] = lambda _: True) -> Callable[[_Made], _Made]:
    """Registers the class below as the live operator of these nodes, or of those that meet a condition."""

    def register(make: _Made) -> _Made:
        _MAKERS.setdefault(node, []).append((when, make))
        return make

    return register


def maker_of(node: Operator) -> Make:
    """The maker of a node's live operator. Raises ValueError if none is registered."""
    for when, make in _MAKERS.get(type(node), ()):
        if when(node):
            return make
    raise ValueError(f"no live operator implements this {node.kind}")
