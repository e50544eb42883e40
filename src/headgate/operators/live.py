"""Gives each node of the graph the object that does its work. Importing this imports every live operator."""

from __future__ import annotations

from importlib import import_module
from pkgutil import walk_packages

from headgate import operators
from headgate.graph.operators import Operator
from headgate.operators.contract import LiveOperator
from headgate.operators.registry import maker_of
from headgate.operators.settings import Settings


def live(node: Operator, settings: Settings) -> LiveOperator:
    """A new live operator without state for a node. Raises ValueError where the node asks for what there is not."""
    return maker_of(node)(node, settings)


for _module in walk_packages(operators.__path__, f"{operators.__name__}."):
    import_module(_module.name)
