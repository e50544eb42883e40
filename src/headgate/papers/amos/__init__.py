"""002, AMoS: selection among scheduling algorithms by their measured performance; its example and Figs. 5–9."""

from headgate.papers.amos.example import example
from headgate.papers.amos.learners import learners
from headgate.papers.amos.selection import delay, delay_30_rate_70, delay_70_rate_30, equal, figure_2, queue

__all__ = ["delay", "delay_30_rate_70", "delay_70_rate_30", "equal", "example", "figure_2", "learners", "queue"]
