"""The engine that users import: declares streams and queries, runs them on Spark, and reports results and metrics.

`Engine` is the interface. What is declared is in `declarations.py` and lasts as long as the engine; what exists only
while it runs is an `EngineRun` (`run.py`), which reads the declarations and makes a plan of them after every change.
"""

from headgate.engine.engine import Engine

__all__ = ["Engine"]
