"""What the endpoints beyond NSQ refuse: positions outside of the log, and changes once the daemon stops."""

from collections.abc import Iterator
from contextlib import contextmanager

from nsqlake.nsqd.broker import Broker
from nsqlake.nsqd.core.seeking import OutsideLogError
from nsqlake.nsqd.http.failures import CODES, refusal
from nsqlake.runtime.http import HttpError

__all__ = ["OUTSIDE", "UNAVAILABLE", "check_running", "within_log"]

OUTSIDE = (416, "OFFSET_OUT_OF_RANGE")
UNAVAILABLE = tuple((503, code) for code in CODES)


@contextmanager
def within_log() -> Iterator[None]:
    """416 with the log's bounds for a position that is not in it."""
    try:
        yield
    except OutsideLogError as error:
        bounds = (("X-Nsq-Log-First", str(error.first)), ("X-Nsq-Log-Next", str(error.next)))
        raise HttpError(*OUTSIDE, reason=str(error), headers=bounds) from error


def check_running(broker: Broker) -> None:
    """503 EXITING once nothing can be made durable any more."""
    if broker.is_exiting:
        raise refusal(broker.refusal)
