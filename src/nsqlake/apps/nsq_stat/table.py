"""The table of `nsq_stat`, in the layout that scripts know."""

from nsqlake.cluster.nsqd_answers import ChannelStats
from nsqlake.runtime.durations import SECOND_NS

HEADER = (
    "------rate------+----------------depth----------------+--------------metadata---------------",
    "ingress  egress |   total     mem    disk inflt   def |     req     t-o         msgs clients",
)
PLAIN, BOLD, GREEN, YELLOW = "", "1", "32", "33"


class Table:
    """Rates are per second over `interval_ns`; colours never change what is written, only how it looks."""

    def __init__(self, *, interval_ns: int, is_coloured: bool = False) -> None:
        self._interval_s = interval_ns / SECOND_NS
        self._is_coloured = is_coloured

    def header(self) -> list[str]:
        return [self._painted(line, BOLD) for line in HEADER]

    def row(self, before: ChannelStats, now: ChannelStats) -> str:
        ingress = now.message_count - before.message_count
        egress = ingress - (now.depth - before.depth)
        return " | ".join(
            (
                f"{self._rate(ingress)} {self._rate(egress)}",
                f"{now.depth:7} {now.memory_depth:7} {now.backend_depth:7}"
                f" {now.in_flight_count:5} {now.deferred_count:5}",
                f"{self._grown(before.requeue_count, now.requeue_count)}"
                f" {self._grown(before.timeout_count, now.timeout_count)}"
                f" {now.message_count:12} {now.client_count:7}",
            )
        )

    def _rate(self, difference: int) -> str:
        per_second = int(difference / self._interval_s)  # towards zero, as NSQ does it
        return self._painted(f"{per_second:7}", GREEN if per_second else PLAIN)

    def _grown(self, before: int, now: int) -> str:
        """Consumers that requeue or time out deserve a look."""
        return self._painted(f"{now:7}", YELLOW if now > before else PLAIN)

    def _painted(self, text: str, colour: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self._is_coloured and colour else text
