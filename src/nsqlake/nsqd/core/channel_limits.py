"""What the options of the daemon mean for its channels."""

__all__ = ["ChannelLimits"]


class ChannelLimits:
    """What the daemon's options say about every channel."""

    __slots__ = (
        "ephemeral_depth",
        "is_topology_aware",
        "max_attempts",
        "max_consumers",
        "max_msg_timeout_ns",
    )

    def __init__(
        self,
        *,
        max_msg_timeout_ns: int,
        ephemeral_depth: int,
        max_consumers: int = 0,
        is_topology_aware: bool = False,
        max_attempts: int = 0,
    ) -> None:
        self.max_msg_timeout_ns, self.ephemeral_depth = max_msg_timeout_ns, ephemeral_depth
        self.max_attempts = max_attempts
        self.max_consumers, self.is_topology_aware = max_consumers, is_topology_aware
