"""The options that an engine is made with, checked."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.control.setting import Setting
from headgate.runtime.modes import Mode
from headgate.spark.storage import below


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """The fixed options of an engine; `Engine` describes each. ValueError for a wrong value.

    `folder` is the checkpoint, which is removed with the engine if it is `temporary`.
    """

    folder: str
    temporary: bool
    budget: float | None
    every: float
    trigger_cores: float | None
    mode: Mode
    threads: int | None
    memory: int | None
    results: int
    dead_letters_folder: str | None
    lane_log: str | None

    def __post_init__(self) -> None:
        if self.every < 0:
            raise ValueError(f"every is {self.every}; give the seconds between two polls of the sources, 0 or more")
        if self.trigger_cores is not None and self.trigger_cores <= 0:
            raise ValueError(f"trigger_cores is {self.trigger_cores}; give the cores that triggers may take, or None")

    @property
    def dead_letters(self) -> str:
        """The folder that malformed rows are written to."""
        return self.dead_letters_folder or ("dead-letters" if self.temporary else below(self.folder, "dead-letters"))

    @property
    def setting(self) -> Setting:
        """The setting that a run starts with, before the run-time optimizer changes it."""
        return Setting(threads=self.threads or 1, budget=1.0 if self.budget is None else self.budget)


def check_replicas(replicas: int | None) -> None:
    """ValueError if the number of replicas is not valid; None stands for the default."""
    if replicas is not None and replicas < 1:
        raise ValueError(f"replicas is {replicas}; give the number of copies of the network, 1 or more")
