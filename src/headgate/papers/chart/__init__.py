"""001, charts: scheduling by the slopes of progress charts; its example, the forks and Figs. 12, 13."""

from headgate.papers.chart.example import example
from headgate.papers.chart.forks import forks
from headgate.papers.chart.outliers import latency, memory

__all__ = ["example", "forks", "latency", "memory"]
