"""Sends publishes to whichever nsqd is ready, keeps those that must wait, and settles each exactly once."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence

from nsqlake.client.config import ClientConfig
from nsqlake.client.errors import (
    ConnectError,
    PublishError,
    PublishNotSentError,
    PublishRejectedError,
    PublishUnknownError,
    ServerError,
)
from nsqlake.client.hook_calls import HookCalls
from nsqlake.client.producer.deadlines import DeadlineWatch
from nsqlake.client.producer.flushing import Flushes
from nsqlake.client.producer.hooks import ProducerHooks
from nsqlake.client.producer.node import Node
from nsqlake.client.producer.node_choice import NodeChoice, Strategy
from nsqlake.client.producer.pipe import PublishPipe
from nsqlake.client.producer.publication import Publication, Room, WaitingPublishes
from nsqlake.client.producer.stats import MAX_BUCKET, Counters
from nsqlake.runtime.timers import Timers


class Dispatcher:
    """All nodes of a producer and every publish that is not settled."""

    def __init__(
        self,
        addresses: Sequence[str],
        config: ClientConfig,
        timers: Timers,
        *,
        choice: NodeChoice,
        retries: Callable[[PublishError], bool],
        hooks: ProducerHooks,
    ) -> None:
        self.nodes = [Node(address, config, timers, self) for address in addresses]
        self.counters = Counters()
        self.room = Room(config.max_publish_in_flight, config.max_publish_bytes)
        self.waiting = WaitingPublishes()
        self._by_address = {node.address: node for node in self.nodes}
        self._available: list[Node] = []
        self._choice, self._may_retry = choice, retries
        self.hook_calls, self._hooks = HookCalls(), hooks
        self._now_s = timers.now_s
        self._deadlines = DeadlineWatch(timers, self._expire)
        self._flushes = Flushes()
        self._drains: dict[str, asyncio.Task[None]] = {}
        self._has_ready = asyncio.Event()

    # Sending ------------------------------------------------------------------------------------------

    def submit(self, publication: Publication, *, block: bool = True) -> None:
        """Send it now if that is possible; else it waits its turn, or fails if it may not wait."""
        if self._hooks.on_publish is not None:
            arguments = publication.topic, publication.message_count, publication.size_bytes
            self.hook_calls.call(self._hooks.on_publish, *arguments)
        if len(self.waiting) or not self._send(publication):
            self._wait(publication, block=block)
        self._deadlines.watch(publication.deadline_s)

    def _send(self, publication: Publication) -> bool:
        node = self._choice.choose(self._available, publication.failed_at)
        if node is not None and not node.can_take:
            self._find_available()
            node = self._choice.choose(self._available, publication.failed_at)
        if node is None or not node.can_take or not self.room.fits(publication.size_bytes):
            return False
        assert node.pipe is not None
        self.room.take(publication.size_bytes)
        node.pipe.send(publication)
        if not publication.retries_left:
            publication.command = b""
        return True

    def _wait(self, publication: Publication, *, block: bool) -> None:
        if not block or self._is_hopeless():
            self._settle_failed(publication, self._not_sent(publication))
            return
        self.waiting.append(publication)
        if not self._available:
            for node in self.nodes:
                node.hurry()

    def _send_waiting(self) -> None:
        while (publication := self.waiting.head()) is not None and self._send(publication):
            self.waiting.pop()

    def _find_available(self) -> None:
        ready = [node for node in self.nodes if node.is_ready]
        # A first one that is only slow is waited for, not passed over.
        is_first_waited_for = self._choice.strategy is Strategy.FIRST
        self._available = [node for node in ready if is_first_waited_for or node.can_take]
        if ready:
            self._has_ready.set()
        else:
            self._has_ready.clear()
        for node in ready:
            if not node.can_take and node.address not in self._drains:
                task = asyncio.get_running_loop().create_task(self._wait_writable(node))
                self._drains[node.address] = task

    async def _wait_writable(self, node: Node) -> None:
        try:
            if node.pipe is not None:
                await node.pipe.connection.wait_writable()
        finally:
            del self._drains[node.address]
        self._find_available()
        self._send_waiting()

    # What the nodes tell ------------------------------------------------------------------------------

    def node_ready(self, node: Node) -> None:
        self.hook_calls.call(self._hooks.on_connect, node.address)
        self._find_available()
        self._send_waiting()

    def node_failed(self, node: Node, error: ConnectError) -> None:
        self.hook_calls.call(self._hooks.on_error, error)
        if self._is_hopeless():
            for publication in self.waiting.take_all():
                self._settle_failed(publication, self._not_sent(publication))
            self._flushes.check()

    def answered(self, publications: list[Publication]) -> None:
        now_s = self._now_s()
        counters, buckets = self.counters, self.counters.latency_buckets
        size_bytes = messages = 0
        for publication in publications:
            outcome = publication.outcome
            if not outcome.done():
                outcome.set_result(None)
            size_bytes += publication.size_bytes
            messages += publication.message_count
            buckets[min(int((now_s - publication.submitted_s) * 1e6).bit_length(), MAX_BUCKET)] += 1
        counters.commands += len(publications)
        counters.messages += messages
        counters.bytes += size_bytes
        on_published = self._hooks.on_published
        if on_published is not None:
            for publication in publications:
                self.hook_calls.call(on_published, publication.topic, now_s - publication.submitted_s)
        self._made_room(len(publications), size_bytes)

    def rejected(self, publication: Publication, error: ServerError) -> None:
        failure = PublishRejectedError(publication.topic, error.address, error.code, error.text)
        self._find_available()
        self._fail([(publication, failure)])
        self._made_room(1, publication.size_bytes)

    def pipe_lost(self, pipe: PublishPipe) -> None:
        left = pipe.pending.take_all()
        self._by_address[pipe.address].lost(pipe)
        self._find_available()
        self.hook_calls.call(self._hooks.on_disconnect, pipe.address, pipe.error)
        self._fail([(publication, _lost(publication, pipe)) for publication in left])
        self._made_room(len(left), sum(publication.size_bytes for publication in left))

    def _made_room(self, count: int, size_bytes: int) -> None:
        self.room.give_back(count, size_bytes)
        if len(self.waiting):
            self._send_waiting()
        self._flushes.check()

    # Failing ------------------------------------------------------------------------------------------

    def _fail(self, failures: list[tuple[Publication, PublishError]]) -> None:
        again = []
        for publication, error in failures:
            if self._retries(publication, error):
                publication.retries_left -= 1
                publication.failed_at = error.address or ""
                if isinstance(error, PublishUnknownError):
                    publication.unknown_at = publication.failed_at
                again.append(publication)
            else:
                self._settle_failed(publication, error)
        self.counters.retries += len(again)
        self.waiting.put_back(again)

    def _retries(self, publication: Publication, error: PublishError) -> bool:
        return (
            publication.retries_left > 0
            and not publication.is_done
            and self._now_s() < publication.deadline_s
            and self._may_retry(error)
        )

    def _settle_failed(self, publication: Publication, error: PublishError) -> None:
        outcome = publication.outcome
        if outcome.done():
            return
        if publication.unknown_at:
            error = PublishUnknownError(publication.topic, publication.unknown_at, _tried_again(error))
        match error:
            case PublishRejectedError():
                self.counters.rejected += 1
            case PublishNotSentError():
                self.counters.not_sent += 1
            case _:
                self.counters.unknown += 1
        outcome.set_exception(error)
        if isinstance(outcome, asyncio.Future):
            outcome.exception()  # who does not look at the future is not told again at its end
        self.hook_calls.call(self._hooks.on_error, error)

    def _expire(self, now_s: float) -> float:
        """Settle what is past its deadline; the earliest deadline of the others."""
        earliest_s = math.inf
        for publication in self.waiting:
            if now_s >= publication.deadline_s:
                self._settle_failed(publication, self._not_sent(publication, is_late=True))
            elif not publication.is_done:
                earliest_s = min(earliest_s, publication.deadline_s)
        self.waiting.purge()
        for node in self.nodes:
            for publication in node.pipe.pending if node.pipe is not None else ():
                if now_s >= publication.deadline_s:
                    self._settle_failed(publication, _unanswered(publication, node.address))
                elif not publication.is_done:
                    earliest_s = min(earliest_s, publication.deadline_s)
        self._flushes.check()
        return earliest_s

    def _is_hopeless(self) -> bool:
        """Every nsqd refuses us for a reason that waiting does not cure."""
        return all(node.is_refused_for_good for node in self.nodes)

    def _not_sent(self, publication: Publication, *, is_late: bool = False) -> PublishNotSentError:
        if any(node.is_ready for node in self.nodes):
            reason = f"no room: {self.room.count} publishes are unanswered"
        else:
            errors = [str(node.last_error) for node in self.nodes if node.last_error is not None]
            reason = "; ".join(["no nsqd is connected", *errors])
        if is_late:
            reason = f"timed out after {publication.deadline_s - publication.submitted_s:g} s: {reason}"
        return PublishNotSentError(publication.topic, None, reason)

    # Ending -------------------------------------------------------------------------------------------

    def outstanding(self) -> list[Publication]:
        """Everything that is not settled."""
        sent = [each for node in self.nodes if node.pipe is not None for each in node.pipe.pending]
        return [each for each in (*sent, *self.waiting) if not each.is_done]

    async def wait_ready(self) -> None:
        """Until an nsqd is connected."""
        await self._has_ready.wait()

    async def flush(self) -> None:
        """Until everything submitted so far is settled, one way or the other."""
        await self._flushes.wait(self.outstanding())

    def fail_rest(self, reason: str) -> None:
        """Settle what is still outstanding; the connections are of no more use after it."""
        for publication in self.waiting.take_all():
            self._settle_failed(publication, PublishNotSentError(publication.topic, None, reason))
        for node in self.nodes:
            for publication in node.pipe.pending if node.pipe is not None else ():
                error = PublishUnknownError(publication.topic, node.address, reason)
                self._settle_failed(publication, error)
        self._flushes.check()

    async def close(self) -> None:
        self._deadlines.cancel()
        await asyncio.gather(*(node.close() for node in self.nodes))
        for task in list(self._drains.values()):
            task.cancel()


def _lost(publication: Publication, pipe: PublishPipe) -> PublishError:
    if pipe.is_refused:
        reason = "nsqd refused an earlier command and read no further"
        return PublishNotSentError(publication.topic, pipe.address, reason)
    reason = "connection lost before the answer" if pipe.error is None else str(pipe.error)
    return PublishUnknownError(publication.topic, pipe.address, reason)


def _tried_again(error: PublishError) -> str:
    """An earlier attempt may have stored it, whatever became of the last one."""
    return f"no answer; tried again: {error.reason}"


def _unanswered(publication: Publication, address: str) -> PublishUnknownError:
    reason = f"no answer within {publication.deadline_s - publication.submitted_s:g} s"
    return PublishUnknownError(publication.topic, address, reason)
