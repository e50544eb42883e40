"""The network inside one worker: edges, queues with spill, threads, the grant loop. Executes, never decides."""

from headgate.runtime.limits import Limits
from headgate.runtime.network import Network, Report
from headgate.runtime.outbox import ResultBatch, result_table
from headgate.runtime.store import Folder, Store

__all__ = ["Folder", "Limits", "Network", "Report", "ResultBatch", "Store", "result_table"]
