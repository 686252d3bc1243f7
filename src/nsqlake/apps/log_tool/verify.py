"""Checking all files of a data path: blocks, state files and journals, topic by topic."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field

from nsqlake.apps.log_tool.data_files import DataFiles
from nsqlake.nsqd.core.ledger import Ledger
from nsqlake.nsqd.journal_file import journal_channels, lost_bytes, read_journal
from nsqlake.nsqd.topic_store import ChannelState, TopicStore
from nsqlake.topiclog.atomic_file import damaged_generations
from nsqlake.topiclog.files import Files
from nsqlake.topiclog.inspection import Finding, LogInspection, inspect_log

__all__ = [
    "DAMAGED",
    "GOOD",
    "UNREADABLE",
    "Result",
    "TopicResult",
    "check_boot",
    "verify_topic",
    "verify_topics",
]

GOOD, DAMAGED, UNREADABLE = 0, 1, 2  # exit codes


@dataclass(slots=True)
class TopicResult:
    """What was found of one topic; `error` when its files could not be read."""

    name: str
    path: str
    log: LogInspection = field(default_factory=LogInspection)
    channels: int = 0
    kept_aside: int = 0  # files with bytes that nsqd found damaged earlier
    findings: list[Finding] = field(default_factory=list)
    error: str = ""

    @property
    def code(self) -> int:
        if self.error:
            return UNREADABLE
        return DAMAGED if any(finding.is_damage for finding in self.findings) else GOOD


@dataclass(slots=True)
class Result:
    """The outcome for a whole path."""

    path: str
    is_clean: bool | None
    holder: str | None = None
    boot: list[Finding] = field(default_factory=list)
    topics: list[TopicResult] = field(default_factory=list)

    @property
    def code(self) -> int:
        boot = DAMAGED if any(finding.is_damage for finding in self.boot) else GOOD
        return max([boot, *(topic.code for topic in self.topics)])


def check_boot(files: Files, data: DataFiles) -> list[Finding]:
    """The boot file: losing it costs no message, only a new epoch."""
    if data.data_path is None:
        return []
    path = os.path.join(data.data_path, "boot")
    damaged = [
        Finding(name, "damaged; counts as an unclean stop") for name in damaged_generations(files, path)
    ]
    if data.is_clean is None and data.topics and not damaged:
        return [Finding(path, "boot file missing; counts as an unclean stop", is_damage=False)]
    return damaged


def verify_topics(files: Files, data: DataFiles, *, is_live: bool) -> Iterator[TopicResult]:
    """The results as they come, one topic after the other."""
    is_settled = bool(data.is_clean) and not is_live
    for name, path in data.topics.items():
        yield verify_topic(files, name, path, is_settled=is_settled)


def verify_topic(files: Files, name: str, path: str, *, is_settled: bool) -> TopicResult:
    result = TopicResult(name, path)
    try:
        _verify_log(files, result, is_settled=is_settled)
        _verify_channels(files, result, is_settled=is_settled)
    except OSError as error:
        result.error = f"{error.filename or path}: {os.strerror(error.errno or 0).lower()}"
    return result


def _verify_log(files: Files, result: TopicResult, *, is_settled: bool) -> None:
    directory = os.path.join(result.path, "log")
    if not files.exists(directory):
        result.findings.append(Finding(directory, "the log is missing"))
        return
    result.log = inspect_log(files, directory, is_settled=is_settled)
    result.findings += result.log.findings
    names = files.listdir(directory)
    result.kept_aside = sum(".log.bad" in name or ".log.torn-" in name for name in names)


def _verify_channels(files: Files, result: TopicResult, *, is_settled: bool) -> None:
    store = TopicStore(files, result.path)
    for path in damaged_generations(files, os.path.join(result.path, "state")):
        result.findings.append(Finding(path, "damaged; the other generation is used"))
    state = store.read_state()
    if state is None:
        path = os.path.join(result.path, "state")
        result.findings.append(Finding(path, "no state file; channels are found by their journals"))
        return
    result.channels = len(state.channels)
    journals = journal_channels(files, store.channels_path) if files.exists(store.channels_path) else {}
    for channel in state.channels:
        generations = journals.get(channel.name, [])
        _verify_journal(files, store, result, channel, generations, is_settled=is_settled)


def _verify_journal(
    files: Files,
    store: TopicStore,
    result: TopicResult,
    channel: ChannelState,
    generations: list[int],
    *,
    is_settled: bool,
) -> None:
    path = os.path.join(store.channels_path, channel.name)
    salt = None if channel.salt < 0 else channel.salt
    found = read_journal(files, store.channels_path, channel.name, generations, salt)
    if found is None:
        result.findings.append(Finding(path, "no journal; the channel begins again at its start"))
        return
    lost = lost_bytes(files, store.channels_path, channel.name, generations[0])
    if lost:
        reason = "journal torn or damaged at its end; some messages come again"
        result.findings.append(Finding(path, reason, is_damage=is_settled, bytes=lost))
    ledger = Ledger(0, channel.start)
    # A log without segments begins behind the clock at every start, and cursors move with it.
    if result.log.segments and ledger.replay(found[2]) and ledger.cursor > result.log.next:
        reason = f"sent up to offset {ledger.cursor}, where the log ends at {result.log.next}"
        result.findings.append(Finding(path, reason, messages=ledger.cursor - result.log.next))
