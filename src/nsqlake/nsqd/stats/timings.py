"""How long the daemon's steps take: one histogram each, fed by whoever takes the step."""

from nsqlake.nsqd.stats.histogram import Histogram

__all__ = ["Timings"]


class Timings:
    """What is measured per block or per run counts for every message in it.

    write: one block to its log. sync: one sync of a log, with the way to its thread and back. delivery: from
    publish to the first delivery. finish: from the delivery of the consumer's oldest run to its FIN.
    loop_lag: how late the event loop comes.
    """

    __slots__ = ("delivery", "finish", "loop_lag", "sync", "write")

    def __init__(self) -> None:
        self.write = Histogram()
        self.sync = Histogram()
        self.delivery = Histogram()
        self.finish = Histogram()
        self.loop_lag = Histogram()
