import io
import logging
import re
from collections.abc import Iterator

import pytest

from nsqlake.apps.tool_support.tool_logs import setup_tool_logging

DATE = r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d"


@pytest.fixture
def output() -> Iterator[io.StringIO]:
    root, package = logging.getLogger(), logging.getLogger("nsqlake")
    before = list(root.handlers), root.level, package.level
    stream = io.StringIO()
    setup_tool_logging(stream)
    yield stream
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    package.setLevel(before[2])


def texts(output: io.StringIO) -> list[str]:
    return [re.sub(f"^{DATE} ", "", line) for line in output.getvalue().splitlines()]


def test_lines_of_a_tool_have_the_time_only(output: io.StringIO) -> None:
    logging.getLogger("nsqlake.apps.nsq_tail.command").info("Adding consumer for topic: %s", "orders")

    assert re.fullmatch(f"{DATE} Adding consumer for topic: orders\n", output.getvalue())


def test_lines_of_the_library_look_as_those_of_the_go_client(output: io.StringIO) -> None:
    client = logging.getLogger("nsqlake.client.consumer")
    client.info("CONSUMER(orders/archive): left backoff")
    client.warning("NSQD(127.0.0.1:4150): late answer", extra={"consumer": "orders/archive"})
    client.error("NSQD(127.0.0.1:4150): broke the protocol")
    client.info("CONSUMER(logs/tail): left backoff")
    client.debug("never seen")

    assert texts(output) == [
        "INF    1 [orders/archive] left backoff",
        "WRN    1 [orders/archive] (127.0.0.1:4150) late answer",
        "ERR    1 (127.0.0.1:4150) broke the protocol",
        "INF    2 [logs/tail] left backoff",
    ]


def test_what_came_over_a_socket_cannot_forge_a_line(output: io.StringIO) -> None:
    logging.getLogger("nsqlake.client").error("NSQD(a:1): %s", "x\n2026/11/15 18:47:29 forged")

    assert texts(output) == [r"ERR    1 (a:1) x\n2026/11/15 18:47:29 forged"]


def test_a_traceback_has_a_head_on_every_line(output: io.StringIO) -> None:
    try:
        raise RuntimeError("surprise")
    except RuntimeError:
        logging.getLogger("nsqlake.client").exception("HOOK(x): failed")

    assert texts(output)[0] == "ERR    1 HOOK(x): failed"
    assert texts(output)[-1] == "ERR    1 | RuntimeError: surprise"


def test_libraries_are_heard_from_warnings_on(output: io.StringIO) -> None:
    logging.getLogger("httpx").info("HTTP Request: GET http://user:secret@a/")
    logging.getLogger("httpx").warning("odd")

    assert texts(output) == ["WRN    1 odd"]


def test_setting_up_twice_writes_lines_once(output: io.StringIO) -> None:
    setup_tool_logging(output)
    logging.getLogger("nsqlake.apps.x").info("once")

    assert texts(output) == ["once"]
