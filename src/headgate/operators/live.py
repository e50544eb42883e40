"""Gives each node of the graph the object that does its work."""

from __future__ import annotations

from headgate.graph import operators as graph
from headgate.operators.aggregate.changes import LiveChanges
from headgate.operators.aggregate.sessions import LiveSessions
from headgate.operators.aggregate.windowed import LiveWindowed
from headgate.operators.contract import LiveOperator
from headgate.operators.distinct import LiveDistinct
from headgate.operators.expand import LiveExpand
from headgate.operators.join import LiveJoin
from headgate.operators.lookup import LiveLookup
from headgate.operators.project import LiveProject
from headgate.operators.select import LiveSelect
from headgate.operators.settings import Settings
from headgate.operators.source import LiveSource
from headgate.operators.split import LiveSplit
from headgate.operators.top import LiveTop
from headgate.operators.union import LiveUnion


def live(node: graph.Operator, settings: Settings) -> LiveOperator:
    """A new live operator without state for a node. Raises ValueError where the node asks for what there is not."""
    match node:
        case graph.Source():
            return LiveSource()
        case graph.Select():
            return LiveSelect(node)
        case graph.Project():
            return LiveProject(node)
        case graph.Expand():
            return LiveExpand(node)
        case graph.Split():
            return LiveSplit(node)
        case graph.Union():
            return LiveUnion(node)
        case graph.Aggregate():
            return _aggregate(node)
        case graph.Join():
            return LiveJoin(node)
        case graph.Lookup():
            return LiveLookup(node, settings)
        case graph.Distinct():
            return LiveDistinct(node)
        case graph.Top():
            return LiveTop(node)
        case _:
            raise ValueError(f"no live operator does what {node.kind} asks for")


def _aggregate(node: graph.Aggregate) -> LiveOperator:
    if node.window is None:
        return LiveChanges(node)
    if node.window.kind == "session":
        return LiveSessions(node)
    return LiveWindowed(node)
