"""`nsqlake log verify` and `nsqlake log dump` from their arguments to their exit code."""

import argparse
import itertools
import os
import sys

from nsqlake.apps.log_tool.data_files import DataFiles, UnusablePathError, find_data_files, lock_holder
from nsqlake.apps.log_tool.dump import FORMATS, messages
from nsqlake.apps.log_tool.verify import (
    DAMAGED,
    GOOD,
    UNREADABLE,
    Result,
    check_boot,
    verify_topics,
)
from nsqlake.apps.log_tool.verify_report import show_progress, summary, to_json, topic_lines
from nsqlake.topiclog.errors import ReadError
from nsqlake.topiclog.log_view import LogView
from nsqlake.topiclog.read_only_files import ReadOnlyFiles

__all__ = ["run_dump", "run_verify"]


def run_verify(arguments: argparse.Namespace) -> int:
    """The exit code; see `--help`."""
    try:
        data, holder = _open(arguments)
        total = _total_bytes(data)
        result = Result(arguments.path, data.is_clean, holder)
        as_it_goes = not arguments.json and not sys.stderr.isatty()
        with show_progress(total, sys.stderr) as on_read:
            files = ReadOnlyFiles(on_read)
            result.boot = check_boot(files, data)
            for topic in verify_topics(files, data, is_live=holder is not None):
                result.topics.append(topic)
                if as_it_goes:
                    _print(topic_lines(topic, arguments.path))
    except (UnusablePathError, OSError) as error:
        return _fail("verify", str(error))
    if arguments.json:
        print(to_json(result))
        return result.code
    if not as_it_goes:
        for topic in result.topics:
            _print(topic_lines(topic, arguments.path))
    _print(summary(result))
    return result.code


def run_dump(arguments: argparse.Namespace) -> int:
    """The exit code; see `--help`. A reader that has seen enough may close the pipe."""
    try:
        data, _holder = _open(arguments)
        view = LogView(ReadOnlyFiles(), os.path.join(_choose(data, arguments), "log"))
        try:
            _write(view, arguments)
            sys.stdout.buffer.flush()
        finally:
            view.close()
    except BrokenPipeError:
        # Nothing more can be written, not even by the interpreter when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return GOOD
    except (UnusablePathError, ReadError, OSError) as error:
        return _fail("dump", str(error))
    damage = view.take_damage()
    for bad in damage:
        place = f"{os.path.basename(bad.path)} position={bad.position} bytes={bad.bytes}"
        print(f"nsqlake log dump: left out {bad.messages} messages: {place}: {bad.reason}", file=sys.stderr)
    return DAMAGED if damage else GOOD


def _write(view: LogView, arguments: argparse.Namespace) -> None:
    form, out = FORMATS[arguments.format], sys.stdout.buffer
    found = messages(view, arguments.begin, arguments.end)
    for message in itertools.islice(found, arguments.limit):
        out.write(form(message, arguments.node_id))


def _choose(data: DataFiles, arguments: argparse.Namespace) -> str:
    name = arguments.topic
    if name is None and len(data.topics) == 1:
        name = next(iter(data.topics))
    if name is None:
        known = ", ".join(data.topics) or "none"
        raise UnusablePathError(arguments.path, f"say which --topic; there are: {known}")
    if name not in data.topics:
        raise UnusablePathError(arguments.path, f"no topic {name} here; there are: {', '.join(data.topics)}")
    return data.topics[name]


def _open(arguments: argparse.Namespace) -> tuple[DataFiles, str | None]:
    data = find_data_files(ReadOnlyFiles(), arguments.path)
    holder = lock_holder(data.data_path)
    if holder is not None:
        if not arguments.live:
            raise UnusablePathError(
                arguments.path,
                f"in use by {holder}; stop it, take a copy, or say --live to look all the same",
            )
        print(f"nsqlake log: {arguments.path} is in use by {holder}, files may change", file=sys.stderr)
    return data, holder


def _total_bytes(data: DataFiles) -> int:
    total = 0
    for topic in data.topics.values():
        for folder, _folders, names in os.walk(os.path.join(topic, "log")):
            total += sum(
                os.path.getsize(os.path.join(folder, name)) for name in names if name.endswith(".log")
            )
    return total


def _print(lines: list[str]) -> None:
    print("\n".join(lines), flush=True)


def _fail(command: str, reason: str) -> int:
    print(f"nsqlake log {command}: {reason}", file=sys.stderr)
    return UNREADABLE
