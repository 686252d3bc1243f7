"""How a program names its version: on the command line, in its first log line and at the head of `/stats`."""

import sys

from nsqlake import NSQ_VERSION


def version_line(program: str) -> str:
    python = ".".join(str(part) for part in sys.version_info[:3])
    return f"{program} v{NSQ_VERSION} (built w/python{python})"
