"""How the outcome of `nsqlake log verify` is told: a line per topic and finding, or JSON."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

import msgspec

from nsqlake.apps.log_tool.verify import GOOD, UNREADABLE, Result, TopicResult
from nsqlake.runtime.logs import escape
from nsqlake.topiclog.inspection import Finding

__all__ = ["show_progress", "summary", "to_json", "topic_lines"]

_WORDS = ("good", "DAMAGED", "UNREADABLE")


def topic_lines(topic: TopicResult, root: str) -> list[str]:
    """The topic's figures, then its gaps and what is amiss, indented."""
    log = topic.log
    lines = [
        f"{topic.name}: {_WORDS[topic.code]}  messages={log.messages} blocks={log.blocks} bytes={log.bytes}"
        f" segments={log.segments} first={log.first} next={log.next} channels={topic.channels}"
    ]
    lines += [
        f"  gap [{gap.start}, {gap.end}) {gap.end - gap.start} offsets: {gap.reason}" for gap in log.gaps
    ]
    lines += [finding_line(finding, root) for finding in topic.findings]
    if topic.kept_aside:
        lines.append(f"  note: nsqd kept damaged or torn bytes aside earlier, in {topic.kept_aside} files")
    if topic.error:
        lines.append(f"  cannot be read: {topic.error}")
    return [escape(line) for line in lines]


def finding_line(finding: Finding, root: str) -> str:
    parts = ["  damaged:" if finding.is_damage else "  note:", os.path.relpath(finding.path, root)]
    if finding.position is not None:
        parts.append(f"position={finding.position}")
    if finding.bytes:
        parts.append(f"bytes={finding.bytes}")
    if finding.messages:
        parts.append(f"messages={finding.messages}")
    return f"{' '.join(parts)}: {finding.reason}"


def summary(result: Result) -> list[str]:
    topics = result.topics
    lines = [escape(finding_line(finding, result.path)) for finding in result.boot]
    stop = {True: "clean", False: "unclean, or nsqd runs", None: "unknown"}[result.is_clean]
    lines.append(
        f"topics={len(topics)} good={sum(topic.code == GOOD for topic in topics)}"
        f" unreadable={sum(topic.code == UNREADABLE for topic in topics)}"
        f" messages={sum(topic.log.messages for topic in topics)}"
        f" lost={sum(finding.messages for topic in topics for finding in topic.findings)}"
        f" last stop: {stop}"
    )
    lines.append(("all good", "damage found", "not everything could be read")[result.code])
    return lines


def to_json(result: Result) -> str:
    """One document with everything the lines tell."""
    topics: list[dict[str, Any]] = []
    for topic in result.topics:
        figures: dict[str, Any] = msgspec.to_builtins(topic.log)
        del figures["findings"]
        topics.append(
            {
                "topic": topic.name,
                "result": _WORDS[topic.code].lower(),
                "error": topic.error or None,
                "channels": topic.channels,
                "kept_aside": topic.kept_aside,
                **figures,
                "findings": msgspec.to_builtins(topic.findings),
            }
        )
    document = {
        "path": result.path,
        "result": _WORDS[result.code].lower(),
        "clean_stop": result.is_clean,
        "in_use_by": result.holder,
        "findings": msgspec.to_builtins(result.boot),
        "topics": topics,
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()


@contextmanager
def show_progress(total_bytes: int, stream: TextIO) -> Iterator[Callable[[int], None]]:
    """A bar of the bytes read on a terminal, nothing elsewhere; yields what counts them."""
    if not stream.isatty():
        yield lambda _nbytes: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(file=stream), transient=True) as progress:
        task = progress.add_task("verify", total=max(total_bytes, 1))
        yield lambda nbytes: progress.advance(task, nbytes)
