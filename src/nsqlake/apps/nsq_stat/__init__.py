"""`nsq_stat`: rates, depth and counts of one channel, over all nodes that have it."""

from nsqlake.apps.nsq_stat.command import main

__all__ = ["main"]
