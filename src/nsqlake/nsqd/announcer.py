"""What a broker tells the world about its topics and channels, and asks it before it makes a topic."""

from typing import Protocol


class Announcer(Protocol):
    """Told at once, without waiting; an empty channel stands for the topic itself."""

    def created(self, topic: str, channel: str = "") -> None: ...
    def deleted(self, topic: str, channel: str = "") -> None: ...

    async def find_channels(self, topic: str) -> list[str]:
        """The channels that others have on `topic`; errors are logged and give none."""
        ...


class SilentAnnouncer:
    """For a broker that nobody needs to find."""

    def created(self, topic: str, channel: str = "") -> None:
        pass

    def deleted(self, topic: str, channel: str = "") -> None:
        pass

    async def find_channels(self, topic: str) -> list[str]:
        return []
