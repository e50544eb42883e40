"""000, hybrid multi-threaded scheduling (HMTS): experiments on decoupling, bursts and queue placement."""

from headgate.papers.hmts.burst import burst
from headgate.papers.hmts.decoupling import decoupling
from headgate.papers.hmts.placement import placement

__all__ = ["burst", "decoupling", "placement"]
