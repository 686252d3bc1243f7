"""Why `nsq_stat` ends: half a sum would be a wrong figure, so any failure does.

NsqlakeError
├── PollError                no figures: during, reason
└── ChannelNotFoundError     no node has the channel: topic, channel
"""

from nsqlake.errors import NsqlakeError


class PollError(NsqlakeError):
    """A step of the poll failed, for all nodes or for some."""

    def __init__(self, during: str, reason: str) -> None:
        super().__init__(f"ERROR: {during} - {reason}")
        self.during, self.reason = during, reason


class ChannelNotFoundError(NsqlakeError):
    def __init__(self, topic: str, channel: str) -> None:
        super().__init__(f"ERROR: failed to find channel({channel}) in stats metadata for topic({topic})")
        self.topic, self.channel = topic, channel
