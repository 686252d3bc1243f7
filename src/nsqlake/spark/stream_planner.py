"""Where the batches of a streaming query begin and end: the driver's part, without Spark's."""

import logging

from nsqlake.spark.advancing import Advance, Survey, advance, stop_at
from nsqlake.spark.errors import DataLossError
from nsqlake.spark.logs import Logs
from nsqlake.spark.nodes import ask_each, find_nodes
from nsqlake.spark.offsets import LogBounds, LogPosition, Positions, QueryOffset, SourceKey
from nsqlake.spark.options import ReadOptions
from nsqlake.spark.planning import LogSizes, cut_to_limits
from nsqlake.spark.progress import ProgressChannel
from nsqlake.spark.starting import check_keys, resolve_bound, resolve_later

__all__ = ["StreamPlanner"]

logger = logging.getLogger(__name__)


class StreamPlanner:
    """For one query. Raises NodeError, and DataLossError unless that is allowed."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._logs = Logs(options)
        self._channel = ProgressChannel(options.channel, options.access)
        self._target: Positions | None = None
        self._absent: set[SourceKey] = set()
        self.newest: Positions | None = None  # where the logs ended when we last looked

    def stop_at_present(self) -> None:
        """From now on the query goes no further than what is there now."""
        self._target = self._logs.survey().ends

    def next_end(self, begun: QueryOffset, *, max_messages: int | None, max_bytes: int | None) -> QueryOffset:
        """Where the batch ends that begins at `begun`; `begun` itself if there is nothing to be done."""
        survey = self._logs.survey()
        self.newest = survey.ends
        found = self._advance(begun, survey)
        if self._target is not None:
            found.limits = stop_at(found, self._target)
        ends = self._cut(found, max_messages, max_bytes)
        if begun.has_begun and ends == begun.positions:
            return begun
        return QueryOffset(ends, found.init)

    def find_again(self, positions: Positions) -> dict[SourceKey, SourceKey]:
        """The logs of a batch that was planned earlier, by where they were then: nodes may have moved."""
        nodes = set(find_nodes(self._options.access))
        found = {key: key for key in positions}
        if not all(key.node in nodes for key in positions):
            now = {(key.topic, each.log): key for key, each in self._logs.survey().bounds.items()}
            for key, at in positions.items():
                if key.node not in nodes:
                    found[key] = now.get((key.topic, at.log), key)
        return found

    def commit(self, positions: Positions) -> None:
        """Tell the nodes that all before is safely with Spark. Never raises and never hangs."""
        self._channel.commit(positions)

    # What `starting` asks for --------------------------------------------------------------------------

    def offset_at(self, key: SourceKey, timestamp_ns: int) -> int:
        return self._logs.offset_at(key, timestamp_ns)

    def cursor(self, key: SourceKey, first: int) -> int:
        return self._channel.cursor(key, first)

    # ---------------------------------------------------------------------------------------------------

    def _advance(self, begun: QueryOffset, survey: Survey) -> Advance:
        starting = self._options.starting
        if not begun.has_begun:
            check_keys("startingOffsets", starting, survey.bounds)

        def begin(key: SourceKey, bounds: LogBounds) -> int:
            if begun.has_begun:
                return resolve_later(starting, key, bounds, self)
            return self._first_start(key, bounds)

        found = advance(begun, survey, begin)
        for loss in found.losses:
            self._tell(loss)
        self._tell_absent(found.absent)
        self._channel.ensure({key: at for key, at in found.starts.items() if key not in found.absent})
        return found

    def _first_start(self, key: SourceKey, bounds: LogBounds) -> int:
        try:
            return resolve_bound("startingOffsets", self._options.starting, key, bounds, self)
        except DataLossError as loss:
            self._tell(loss)
            return bounds.first

    def _cut(self, found: Advance, max_messages: int | None, max_bytes: int | None) -> Positions:
        if max_messages is None and max_bytes is None:
            return found.limits
        new = [key for key, at in found.limits.items() if at.offset > found.starts[key].offset]

        def size(key: SourceKey) -> LogSizes:
            start, end = found.starts[key], found.limits[key].offset
            try:
                return self._logs.sizes_up_to(key, start, end, messages=max_messages, nbytes=max_bytes)
            except DataLossError as loss:
                self._tell(loss)
                return LogSizes(start.offset, [])  # the next batch sees where the log begins now

        def measure(node: str) -> dict[SourceKey, LogSizes]:
            return {key: size(key) for key in new if key.node == node}

        measured = ask_each(sorted({key.node for key in new}), measure)
        sizes = {key: each for of_node in measured.values() for key, each in of_node.items()}
        ends = Positions(found.limits)
        for key, end in cut_to_limits(sizes, max_messages=max_messages, max_bytes=max_bytes).items():
            ends[key] = LogPosition(end, ends[key].log)
        return ends

    def _tell(self, loss: DataLossError) -> None:
        if self._options.fail_on_data_loss:
            raise loss
        logger.error("%s", loss)

    def _tell_absent(self, absent: set[SourceKey]) -> None:
        for key in sorted(absent - self._absent):
            logger.warning("topic %s waits for node %s, which is not there", key.topic, key.node)
        self._absent = absent
