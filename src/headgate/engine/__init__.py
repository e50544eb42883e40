"""The engine that users import: declares streams and queries, runs them on Spark, and reports results and metrics.

`Engine` is the interface. Declarations (`declarations.py`) last as long as the engine; an `EngineRun` (`run.py`) exists
only while it runs, reads the declarations and makes a new plan after every change.
"""

from headgate.engine.engine import Engine

__all__ = ["Engine"]
