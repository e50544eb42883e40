"""002, AMoS: selecting among scheduling algorithms by what they achieved; its example and Figs. 5–9."""

from headgate.papers.amos.example import example

__all__ = ["example"]
