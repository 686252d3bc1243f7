"""The append-only block log of one topic: synchronous, one writer."""

from nsqlake.topiclog.atomic_file import read_atomic, remove_atomic, remove_stale_temps, write_atomic
from nsqlake.topiclog.block import Span
from nsqlake.topiclog.damage import Damage
from nsqlake.topiclog.errors import (
    AppendError,
    CorruptBlockError,
    LogClosedError,
    LogOpenError,
    OffsetOutOfRangeError,
    ReadError,
    SyncError,
    TopicLogError,
)
from nsqlake.topiclog.files import OS_FILES, Files
from nsqlake.topiclog.memory_log import MemoryLog
from nsqlake.topiclog.options import LogOptions
from nsqlake.topiclog.recovery import RecoveryReport
from nsqlake.topiclog.segment import EPOCH_JUMP
from nsqlake.topiclog.sync_job import SyncJob
from nsqlake.topiclog.topic_log import TopicLog

__all__ = [
    "EPOCH_JUMP",
    "OS_FILES",
    "AppendError",
    "CorruptBlockError",
    "Damage",
    "Files",
    "LogClosedError",
    "LogOpenError",
    "LogOptions",
    "MemoryLog",
    "OffsetOutOfRangeError",
    "ReadError",
    "RecoveryReport",
    "Span",
    "SyncError",
    "SyncJob",
    "TopicLog",
    "TopicLogError",
    "read_atomic",
    "remove_atomic",
    "remove_stale_temps",
    "write_atomic",
]
