"""The network inside one worker: edges, queues with spill, threads, the grant loop. Executes, never decides.

One grant, in reading order: `queue` (waiting batches), `memory` (bytes, spilling), `dataflow` (operators and a pass
through a unit), `loop` (the grant), with `train_size` and `outbox`. Around it: `measurement` (statistics), `threads`
(lock and workers), `limits` (memory of queries, failures). The whole: `state`, its `snapshot` and `metrics`, `intake`
(rows enter), `grants` (grants run), and `network`, the interface.
"""

from headgate.runtime.grants import Report
from headgate.runtime.limits import Limits
from headgate.runtime.network import Network
from headgate.runtime.outbox import ResultBatch, result_table
from headgate.runtime.store import Folder, Store

__all__ = ["Folder", "Limits", "Network", "Report", "ResultBatch", "Store", "result_table"]
