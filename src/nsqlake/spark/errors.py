"""What can go wrong between Spark and the brokers; each text names the option, node or offset.

SparkSourceError
├── OptionError          option, value, reason
├── NodeError            node, reason: retriable; a node that does not answer, or not what it should
│   └── RefusedError     status, code, headers: not retriable; it understood and said no
├── DataLossError        topic, node, reason, resume: messages are gone that the query has not read
├── RowError             column, reason: a DataFrame that cannot be published
└── WriteError           node, reason: what a task or a batch could not publish
"""

from collections.abc import Mapping

from nsqlake.errors import NsqlakeError

__all__ = [
    "DataLossError",
    "NodeError",
    "OptionError",
    "RefusedError",
    "RowError",
    "SparkSourceError",
    "WriteError",
]

_SHOWN = 200


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


class RefusedError(NodeError):
    """The node understood and said no."""

    retriable = False

    def __init__(
        self, node: str, status: int, code: str, reason: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        said = " ".join(part for part in (str(status), code) if part)
        super().__init__(node, f"answered {said}{': ' + reason if reason else ''}")
        self.status, self.code, self.headers = status, code, headers or {}


class DataLossError(SparkSourceError):
    """Messages that were not read yet are gone. `resume` is where the log goes on, None when it does not."""

    def __init__(self, topic: str, node: str, reason: str, resume: int | None = None) -> None:
        super().__init__(
            f"topic {topic} on node {node}: {reason}. Set failOnDataLoss=false to go on without them"
        )
        self.topic, self.node, self.reason, self.resume = topic, node, reason, resume


class WriteError(SparkSourceError):
    """Messages that could not be published."""

    retriable = True

    def __init__(self, node: str, reason: str) -> None:
        super().__init__(f"node {node}: {reason}")
        self.node, self.reason = node, reason

    @classmethod
    def of_nodes(cls, failures: Mapping[str, str], what: str = "") -> "WriteError":
        """What each node said, by its name."""
        node, *more = failures
        reason = "".join([failures[node], *(f"; node {each}: {failures[each]}" for each in more)])
        return cls(node, f"{what}: {reason}" if what else reason)


class RowError(SparkSourceError):
    """A DataFrame, or a row of it, that cannot be published."""

    def __init__(self, column: str, reason: str) -> None:
        super().__init__(f"column {column} {reason}")
        self.column, self.reason = column, reason
