import io
import logging
import re
from collections.abc import Iterator

import pytest

from nsqlake.runtime.logs import (
    ALWAYS,
    LINES_PER_SECOND,
    LOG_LEVEL,
    MAX_KINDS,
    MAX_TEXT_LENGTH,
    LogHandler,
    LogLevel,
    RateLimit,
    escape,
    log_line,
    set_log_level,
    setup_logging,
    timestamp,
)

HEAD = r"\[nsqd\] \d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{6}"
logger = logging.getLogger("nsqlake.tests.logs")


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root, package = logging.getLogger(), logging.getLogger("nsqlake")
    before = list(root.handlers), root.level, package.level
    stream = io.StringIO()
    setup_logging(LogLevel.INFO, "[nsqd] ", stream)
    yield stream
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    package.setLevel(before[2])


def lines(stream: io.StringIO) -> list[str]:
    return stream.getvalue().splitlines()


def record(created: float, message: str = "flood %d", level: int = logging.INFO) -> logging.LogRecord:
    made = logging.LogRecord("nsqlake.x", level, "x.py", 1, message, (1,) if "%" in message else (), None)
    made.created = created
    return made


def test_a_line_has_prefix_local_time_level_and_text(stream: io.StringIO) -> None:
    logger.info("TOPIC(%s): created", "orders")

    assert re.fullmatch(HEAD + r" INFO: TOPIC\(orders\): created", lines(stream)[0])


@pytest.mark.parametrize(
    ("level", "name"),
    [
        (logging.INFO, "INFO"),
        (logging.WARNING, "WARNING"),
        (logging.ERROR, "ERROR"),
        (logging.CRITICAL, "FATAL"),
    ],
)
def test_levels_are_named_as_in_nsq(stream: io.StringIO, level: int, name: str) -> None:
    logger.log(level, "x")

    assert lines(stream)[0].endswith(f" {name}: x")


def test_lines_below_the_level_are_not_written_until_it_is_lowered(stream: io.StringIO) -> None:
    logger.debug("first")
    set_log_level(LogLevel.DEBUG)
    logger.debug("second")
    set_log_level(LogLevel.FATAL)
    logger.error("third")

    assert [line.split(": ")[1] for line in lines(stream)] == ["second"]


def test_of_other_libraries_only_warnings_are_written(stream: io.StringIO) -> None:
    set_log_level(LogLevel.DEBUG)

    logging.getLogger("httpx").info("GET /auth?secret=s3cret")
    logging.getLogger("httpx").warning("careful")

    assert [line.split(": ")[1] for line in lines(stream)] == ["careful"]


def test_a_client_cannot_forge_a_line(stream: io.StringIO) -> None:
    logger.info("CLIENT(%s)", "x\r\n[nsqd] 2026/11/15 18:47:29.123456 FATAL: gone\x1b[2J\u2028\x85")

    assert len(lines(stream)) == 1
    assert lines(stream)[0].endswith(r"x\r\n[nsqd] 2026/11/15 18:47:29.123456 FATAL: gone\x1b[2J\u2028\x85)")


def test_an_exception_cannot_forge_a_line_either(stream: io.StringIO) -> None:
    try:
        raise ValueError("x\n[nsqd] 2026/11/15 18:47:29.123456 FATAL: gone")
    except ValueError:
        logger.exception("failed")

    assert all(re.match(HEAD + r" ERROR: (failed$|\| )", line) for line in lines(stream))
    assert lines(stream)[-2].endswith("ERROR: | ValueError: x")


def test_a_long_line_is_cut() -> None:
    text = escape("a" * (MAX_TEXT_LENGTH + 5))

    assert text == "a" * MAX_TEXT_LENGTH + "... (5 more characters)"


def test_times_are_those_of_the_machines_zone_with_microseconds_if_wanted() -> None:
    assert re.fullmatch(r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.250000", timestamp(1_700_000_000.25))
    assert re.fullmatch(r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d", timestamp(1_700_000_000.25, micros=False))
    assert log_line("> ", "FATAL", "a\nb", 0.0).endswith(r" FATAL: a\nb")


def test_the_words_of_the_setting_are_not_the_printed_names() -> None:
    assert LOG_LEVEL.parse("WARN") is LogLevel.WARN
    with pytest.raises(ValueError) as caught:
        LOG_LEVEL.parse("warning")

    assert str(caught.value) == "invalid log level 'warning' (debug, info, warn, error, fatal)"


def test_only_so_many_lines_of_a_kind_pass_in_a_second() -> None:
    reported: list[logging.LogRecord] = []
    limit = RateLimit(reported.append, lines_per_second=3)

    passed = [limit.filter(record(100.0 + i / 1000)) for i in range(10)]

    assert passed == [True] * 3 + [False] * 7
    assert limit.filter(record(100.5, "another kind"))
    assert limit.filter(record(101.0))


def test_what_was_held_back_is_reported_once_with_the_next_line() -> None:
    reported: list[logging.LogRecord] = []
    limit = RateLimit(reported.append, lines_per_second=3)
    for _ in range(10):
        limit.filter(record(100.0, level=logging.ERROR))

    limit.filter(record(107.0, "another kind"))
    limit.flush()

    assert [(entry.levelno, entry.getMessage()) for entry in reported] == [
        (logging.ERROR, "suppressed 7 lines of nsqlake.x, the first: flood 1")
    ]


def test_held_back_lines_are_told_apart_by_their_logger() -> None:
    reported: list[logging.LogRecord] = []
    limit = RateLimit(reported.append, lines_per_second=1)
    for name in ("nsqlake.x", "nsqlake.y") * 3:
        line = record(100.0)
        line.name = name
        limit.filter(line)

    limit.flush()

    assert [entry.getMessage().split(",")[0] for entry in reported] == [
        "suppressed 2 lines of nsqlake.x",
        "suppressed 2 lines of nsqlake.y",
    ]


def test_the_words_of_a_held_back_line_are_escaped_and_cut() -> None:
    reported: list[logging.LogRecord] = []
    limit = RateLimit(reported.append, lines_per_second=0)
    limit.filter(record(100.0, "x\n" + 200 * "y"))
    limit.filter(record(100.0, "%d %d"))  # one argument for two places

    limit.flush()

    texts = [entry.getMessage() for entry in reported]
    assert texts[0].endswith(r"the first: x\n" + 118 * "y" + "... (82 more characters)")
    assert texts[1].endswith("the first: %d %d")


def test_a_line_that_must_not_be_missed_is_not_limited() -> None:
    limit = RateLimit([].append, lines_per_second=0)
    total = logging.getLogger("nsqlake.x").makeRecord(
        "nsqlake.x", logging.ERROR, "x.py", 1, "in all", (), None, extra=ALWAYS
    )

    assert limit.filter(total)


def test_debug_lines_are_not_limited() -> None:
    limit = RateLimit([].append, lines_per_second=1)

    assert all(limit.filter(record(100.0, level=logging.DEBUG)) for _ in range(10))


def test_lines_that_are_all_of_different_kinds_are_limited_together() -> None:
    limit = RateLimit([].append, lines_per_second=3)

    passed = sum(limit.filter(record(100.0, f"kind {i}")) for i in range(MAX_KINDS + 100))

    assert passed == MAX_KINDS + 3


def test_closing_the_handler_reports_what_was_held_back() -> None:
    stream = io.StringIO()
    handler = LogHandler("[nsqd] ", stream)
    for _ in range(LINES_PER_SECOND + 2):
        handler.handle(record(100.0))

    handler.close()

    assert len(lines(stream)) == LINES_PER_SECOND + 1
    assert lines(stream)[-1].endswith("INFO: suppressed 2 lines of nsqlake.x, the first: flood 1")


def test_setting_up_again_replaces_the_handler(stream: io.StringIO) -> None:
    second = io.StringIO()

    setup_logging(LogLevel.INFO, "[other] ", second)
    logger.info("x")

    assert lines(stream) == []
    assert len(lines(second)) == 1


def test_half_a_surrogate_pair_is_escaped() -> None:
    assert escape("x\ud800") == r"x\ud800"
