"""What can go wrong between Spark and the brokers; each text names the option, node or offset.

SparkSourceError
├── OptionError          option, value, reason
├── NodeError            node, reason: retriable; a node that does not answer, or not what it should
├── DataLossError        topic, node, wanted, reason: messages are gone that the query has not read
├── RowError             column, reason: a DataFrame that cannot be published
└── WriteError           node, reason: what a task or a batch could not publish
"""

from nsqlake.errors import NsqlakeError

__all__ = ["DataLossError", "NodeError", "OptionError", "RowError", "SparkSourceError", "WriteError"]

_SHOWN = 80


class SparkSourceError(NsqlakeError):
    """Base class."""


class OptionError(SparkSourceError):
    """An option that cannot be used."""

    def __init__(self, option: str, value: object, reason: str) -> None:
        shown = "" if value is None else f" {str(value)[:_SHOWN]!r}"
        super().__init__(f"option {option}{shown}: {reason}")
        self.option, self.value, self.reason = option, value, reason


class NodeError(SparkSourceError):
    """A node that cannot be asked, or gives no sense."""

    retriable = True

    def __init__(self, node: str, reason: str) -> None:
        super().__init__(f"node {node}: {reason}")
        self.node, self.reason = node, reason


class DataLossError(SparkSourceError):
    """Messages that were not read yet are gone."""

    def __init__(self, topic: str, node: str, reason: str) -> None:
        super().__init__(
            f"topic {topic} on node {node}: {reason}. Set failOnDataLoss=false to go on without them"
        )
        self.topic, self.node, self.reason = topic, node, reason


class WriteError(SparkSourceError):
    """Messages that could not be published."""

    retriable = True

    def __init__(self, node: str, reason: str) -> None:
        super().__init__(f"node {node}: {reason}")
        self.node, self.reason = node, reason


class RowError(SparkSourceError):
    """A DataFrame, or a row of it, that cannot be published."""

    def __init__(self, column: str, reason: str) -> None:
        super().__init__(f"column {column} {reason}")
        self.column, self.reason = column, reason
