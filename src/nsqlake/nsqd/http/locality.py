"""Whether a request was made on this machine, and by its operator.

A browser on this machine runs what strangers wrote. It says so by `Origin`; and where a stranger's name was
made to lead to 127.0.0.1, it says that name as `Host`.
"""

import ipaddress

from nsqlake.runtime.addresses import host_name, split_host_port
from nsqlake.runtime.http import Request

__all__ = ["is_local"]


def is_local(request: Request) -> bool:
    if not request.is_loopback:
        return False
    is_unix = not request.remote_ip  # where no browser comes, and any Host does
    return is_unix or ("origin" not in request.headers and _is_our_name(request.headers.get("host", "")))


def _is_our_name(text: str) -> bool:
    """An address, `localhost`, the name of this machine, or nothing, as HTTP/1.0 has it."""
    host_port = split_host_port(text)
    host = (text if host_port is None else host_port[0]).strip("[]").lower()
    if host in ("", "localhost", host_name().lower()):
        return True
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
