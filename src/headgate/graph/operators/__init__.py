"""Operators as immutable data: the nodes of the query graph, one per file. `operator.py` defines their interface."""

from headgate.graph.operators.aggregate import Aggregate, AggregateCall
from headgate.graph.operators.current_join import CurrentJoin
from headgate.graph.operators.current_top import CurrentTop
from headgate.graph.operators.distinct import Distinct
from headgate.graph.operators.exchange import Candidates, Merge, Partial, Send, Stamp, Unstamp
from headgate.graph.operators.expand import Expand
from headgate.graph.operators.join import Binary, Join, JoinKind, TimeBound
from headgate.graph.operators.lookup import Lookup
from headgate.graph.operators.operator import Operator, Unary, concat
from headgate.graph.operators.project import Project
from headgate.graph.operators.select import Select
from headgate.graph.operators.source import Source, source_of
from headgate.graph.operators.split import Split
from headgate.graph.operators.top import Order, Top
from headgate.graph.operators.union import Union
from headgate.graph.operators.window import Window

KINDS: dict[str, type[Operator]] = {
    each.__name__.lower(): each
    for each in (
        *(Source, Select, Project, Expand, Split, Union, Aggregate, Join, Lookup, Distinct, Top),
        *(CurrentTop, CurrentJoin),
        *(Send, Partial, Merge, Candidates, Stamp, Unstamp),
    )
}
"""Every operator by its kind."""

__all__ = [
    "KINDS",
    "Aggregate",
    "AggregateCall",
    "Binary",
    "Candidates",
    "CurrentJoin",
    "CurrentTop",
    "Distinct",
    "Expand",
    "Join",
    "JoinKind",
    "Lookup",
    "Merge",
    "Operator",
    "Order",
    "Partial",
    "Project",
    "Select",
    "Send",
    "Source",
    "Split",
    "Stamp",
    "TimeBound",
    "Top",
    "Unary",
    "Union",
    "Unstamp",
    "Window",
    "concat",
    "source_of",
]
