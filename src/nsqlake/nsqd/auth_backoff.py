"""Slowing down those who keep failing to authenticate."""

import ipaddress
from collections import OrderedDict

SECOND_NS = 1_000_000_000
FREE_FAILURES = 10  # processes of one host that restart with an old secret
FIRST_WAIT_NS = SECOND_NS
MAX_WAIT_NS = 60 * SECOND_NS
FORGET_AFTER_NS = 10 * MAX_WAIT_NS
MAX_SOURCES = 10_000


class AuthBackoff:
    """Counts failures per source address: IPv4 address or IPv6 network; unix sockets ("") are not counted."""

    def __init__(self) -> None:
        self._failures: OrderedDict[str, tuple[int, int]] = OrderedDict()  # source: count, time of the last

    def wait_ns(self, remote_ip: str, now_ns: int) -> int:
        """How long `remote_ip` has to wait before it may try again; 0 when it may now."""
        count, last_ns = self._failures.get(_source(remote_ip), (0, 0))
        excess = count - FREE_FAILURES
        if excess < 0 or now_ns - last_ns >= FORGET_AFTER_NS:
            return 0
        wait_ns = min(MAX_WAIT_NS, FIRST_WAIT_NS << min(excess, 16))
        return max(0, last_ns + wait_ns - now_ns)

    def add_failure(self, remote_ip: str, now_ns: int) -> None:
        if not remote_ip:
            return
        source = _source(remote_ip)
        count, last_ns = self._failures.pop(source, (0, 0))
        if now_ns - last_ns >= FORGET_AFTER_NS:
            count = 0
        self._failures[source] = (count + 1, now_ns)
        if len(self._failures) > MAX_SOURCES:
            self._failures.popitem(last=False)

    def add_success(self, remote_ip: str) -> None:
        self._failures.pop(_source(remote_ip), None)


def _source(remote_ip: str) -> str:
    """Whoever has one IPv6 address usually has all of its /64."""
    try:
        address = ipaddress.ip_address(remote_ip.partition("%")[0])
    except ValueError:
        return remote_ip
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((int(address), 64), strict=False))
    return str(address)
