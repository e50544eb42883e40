"""Creates the live operator of a node of the graph. Importing this module imports every live operator."""

from __future__ import annotations

from importlib import import_module
from pkgutil import walk_packages

from headgate import operators
from headgate.graph.operators import Operator
from headgate.operators.contract import LiveOperator
from headgate.operators.registry import maker_of
from headgate.operators.settings import Settings


def live(node: Operator, settings: Settings) -> LiveOperator:
    """A new live operator without state for a node. Raises ValueError if the node is not supported."""
    return maker_of(node)(node, settings)


for _module in walk_packages(operators.__path__, f"{operators.__name__}."):
    import_module(_module.name)
