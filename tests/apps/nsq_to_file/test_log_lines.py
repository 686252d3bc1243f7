import io
import logging
import re

from nsqlake.apps.nsq_to_file.log_lines import setup_archive_logging
from nsqlake.runtime.logs import LogLevel

DATE = r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d"


def test_own_lines_have_prefix_microseconds_and_level() -> None:
    stream = io.StringIO()
    setup_archive_logging(LogLevel.INFO, "[archive] ", stream)

    own = logging.getLogger("nsqlake.apps.nsq_to_file.service")
    own.info("one")
    own.warning("two")
    own.critical("three")
    own.debug("hidden")

    levels = ["INFO: one", "WARNING: two", "FATAL: three"]
    lines = stream.getvalue().splitlines()
    assert len(lines) == 3
    for line, level in zip(lines, levels, strict=True):
        assert re.fullmatch(rf"\[archive\] {DATE}\.\d{{6}} {level}", line)


def test_lines_of_the_library_are_those_of_nsqs_client() -> None:
    stream = io.StringIO()
    setup_archive_logging(LogLevel.INFO, "[archive] ", stream)

    logging.getLogger("nsqlake.client.consumer").info("connecting")

    assert re.fullmatch(rf"{DATE} INF\s+\d+ .*connecting\n", stream.getvalue())


def test_the_level_counts_for_all() -> None:
    stream = io.StringIO()
    setup_archive_logging(LogLevel.ERROR, "", stream)

    for name in ("apps.nsq_to_file.service", "client.consumer"):
        logging.getLogger(f"nsqlake.{name}").warning("hidden")

    assert stream.getvalue() == ""
