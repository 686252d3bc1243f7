"""What all parts of one consumer share."""

from __future__ import annotations

from dataclasses import dataclass, field

from nsqlake.client.config import ClientConfig
from nsqlake.client.consumer.hooks import ConsumerHooks
from nsqlake.client.consumer.stats import Counters
from nsqlake.client.hook_calls import Hook, HookCalls
from nsqlake.runtime.timers import Timers


@dataclass(frozen=True)
class Context:
    topic: str
    channel: str
    config: ClientConfig
    timers: Timers
    hooks: ConsumerHooks
    counters: Counters = field(default_factory=Counters)
    hook_calls: HookCalls = field(default_factory=HookCalls)

    @property
    def name(self) -> str:
        """How the log calls this consumer."""
        return self.config.name or f"{self.topic}/{self.channel}"

    def log_fields(self, address: str = "") -> dict[str, str]:
        fields = {"consumer": self.name, "topic": self.topic, "channel": self.channel}
        return {**fields, "nsqd": address} if address else fields

    def tell(self, hook: Hook | None, *arguments: object) -> None:
        if hook is not None:
            self.hook_calls.call(hook, *arguments)
