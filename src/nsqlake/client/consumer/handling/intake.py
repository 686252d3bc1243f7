"""Where messages wait for their handler, as the other parts of a consumer see it."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from nsqlake.client.message import Message


class Intake(Protocol):
    """Takes what arrives and sees to it that it is handled."""

    @property
    def queued(self) -> int:
        """Messages that no handler has begun."""

    @property
    def running(self) -> int:
        """Handlers that run."""

    def is_inside(self, task: asyncio.Task[Any]) -> bool:
        """Whether `task` runs a handler, and so cannot wait for all handlers."""

    def add(self, messages: list[Message]) -> None: ...

    def take_unstarted(self) -> list[Message]:
        """Messages that no handler has begun, and now none will."""

    def cancel(self) -> None:
        """Interrupt the handlers that run, as far as they can be."""

    async def wait_idle(self) -> None:
        """Until no handler runs."""

    def close(self) -> None:
        """Nothing more will come."""
