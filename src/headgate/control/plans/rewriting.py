"""Finds and replaces parts of a plan, for all kinds of alternate plans."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from headgate.graph.operators import Operator

Found = TypeVar("Found", bound=Operator)


def replaced(node: Operator, old: Operator, new: Operator) -> Operator:
    """The plan `node` with the subtree at `old` replaced by `new`, which has the same columns."""
    if node is old:
        return new
    inputs = tuple(replaced(each, old, new) for each in node.inputs)
    if all(a is b for a, b in zip(inputs, node.inputs, strict=True)):
        return node
    return node.with_inputs(inputs)


def topmost(node: Operator, kind: type[Found]) -> Iterator[Found]:
    """The operators of a kind in a plan, in pre-order."""
    if isinstance(node, kind):
        yield node
    for each in node.inputs:
        yield from topmost(each, kind)
