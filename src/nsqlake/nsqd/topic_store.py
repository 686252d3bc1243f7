"""The directory of one topic: its log, the journals of its channels, and what cannot be rebuilt from them.

topics/<name>.topic/state.0, state.1      channels, pause, fanout (two generations, checksummed)
topics/<name>.topic/log/                  segments and indexes
topics/<name>.topic/channels/             journals
"""

import os

import msgspec

from nsqlake.nsqd.core.topic import Topic
from nsqlake.topiclog.atomic_file import read_newest, remove_stale_temps, write_atomic
from nsqlake.topiclog.files import Files

__all__ = ["ChannelState", "TopicState", "TopicStore", "topic_directory", "topic_name"]

_SUFFIX = ".topic"


class ChannelState(msgspec.Struct):
    name: str
    salt: int
    start: int
    paused: bool = False
    max_attempts: int | None = None


class TopicState(msgspec.Struct):
    """`fanout` is only believed while the topic is paused or has no channel.

    `origin` is where the log began, without the jumps of its epochs; 0 when nobody knows.
    """

    fanout: int
    paused: bool = False
    emptied: list[tuple[int, int]] = []
    channels: list[ChannelState] = []
    origin: int = 0


def topic_directory(name: str) -> str:
    # The suffix keeps the topics "." and ".." from being path elements.
    return name + _SUFFIX


def topic_name(directory: str) -> str | None:
    name = directory.removesuffix(_SUFFIX)
    return name if name and name != directory else None


class TopicStore:
    """Where a topic lives on disk."""

    def __init__(self, files: Files, path: str) -> None:
        self.files = files
        self.path = path
        self.log_path = os.path.join(path, "log")
        self.channels_path = os.path.join(path, "channels")
        self._state_path = os.path.join(path, "state")

    def prepare(self) -> None:
        """Make the directories that are missing and remove what an interrupted write left."""
        for path in (self.path, self.channels_path):
            if not self.files.exists(path):
                self.files.mkdir(path)
        remove_stale_temps(self.files, self.path)

    def read_state(self) -> TopicState | None:
        return self.find_state()[0]

    def find_state(self) -> tuple[TopicState | None, bool]:
        """The state, and whether it certainly is the last that was written."""
        payload, is_certain = read_newest(self.files, self._state_path)
        if payload is None:
            return None, is_certain
        try:
            return msgspec.json.decode(payload, type=TopicState), is_certain
        except msgspec.DecodeError:
            return None, is_certain

    def write_state(self, state: TopicState) -> None:
        """Durable when it returns; blocks, so it belongs on another thread than the event loop's."""
        write_atomic(self.files, self._state_path, msgspec.json.encode(state))

    def sync_parents(self) -> None:
        self.files.sync_dir(self.channels_path)
        self.files.sync_dir(self.path)
        self.files.sync_dir(os.path.dirname(self.path))


def describe(topic: Topic, channels: dict[str, ChannelState]) -> TopicState:
    """The state of a topic as it is now; ephemeral channels are left out."""
    kept = [
        ChannelState(state.name, state.salt, state.start, core.is_paused, core.own_max_attempts)
        for name, state in channels.items()
        if (core := topic.channels.get(name)) is not None
    ]
    return TopicState(
        fanout=topic.backlog.fanout,
        paused=topic.is_paused,
        emptied=topic.backlog.emptied,
        channels=kept,
        origin=topic.origin,
    )
