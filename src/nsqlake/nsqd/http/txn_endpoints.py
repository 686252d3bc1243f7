"""Transactional publishing: stage messages, then make all of them visible together, once."""

from typing import TYPE_CHECKING

import msgspec

from nsqlake.nsqd.access import is_allowed
from nsqlake.nsqd.http.answers import TxnCommitAnswer, TxnPartAnswer, TxnStageAnswer, TxnStateAnswer
from nsqlake.nsqd.http.arguments import integer, text, topic_name
from nsqlake.nsqd.http.endpoints import JSON, TOPIC, Access, Endpoint, Kind, Parameter, Reply, RequestBody
from nsqlake.nsqd.http.failures import FAILURES, refusal, refused
from nsqlake.nsqd.http.refusals import UNAVAILABLE, check_running
from nsqlake.nsqd.http.schemas import ref
from nsqlake.nsqd.http.services import Services
from nsqlake.nsqd.transactions.errors import (
    BusyError,
    DecidedError,
    DifferentError,
    ForeignError,
    GapError,
    IncompleteError,
    NoRoomError,
    RefusedError,
    TransactionError,
    UnknownError,
)
from nsqlake.nsqd.transactions.store import ChosenPart
from nsqlake.nsqd.transactions.txn_id import MAX_NUMBER, TxnId
from nsqlake.runtime.http import HttpError, Request, Response, json_response
from nsqlake.wire.command_reader import Messages
from nsqlake.wire.errors import ClientError
from nsqlake.wire.mpub_bodies import decode_binary
from nsqlake.wire.names import is_ephemeral

if TYPE_CHECKING:
    from nsqlake.nsqd.permissions import AuthState

__all__ = ["endpoints"]

MAX_PART = 2**31 - 1  # and the most requests of an attempt
MAX_COMMIT_BYTES = 4 * 1024 * 1024
COMMIT_DEADLINE_S = 300.0

_CODES: dict[type[TransactionError], tuple[int, str]] = {
    GapError: (409, "RECORD_MISSING"),
    DifferentError: (409, "RECORD_DIFFERS"),
    IncompleteError: (409, "TXN_INCOMPLETE"),
    DecidedError: (409, "TXN_COMMITTED"),
    BusyError: (503, "TXN_BUSY"),
    UnknownError: (404, "TXN_NOT_FOUND"),
    ForeignError: (403, "FORBIDDEN"),
    NoRoomError: (503, "TXN_FULL"),
}

TXN = Parameter(
    name="txn",
    required=True,
    example="query-1.0",
    description="Name of the transaction: a producer's name (letters, digits, - and _), a dot, and its "
    "number. A producer's numbers only grow.",
)


def _number(name: str, description: str) -> Parameter:
    return Parameter(name=name, kind=Kind.INTEGER, required=True, example="0", description=description)


PART = _number("part", "Which part of the transaction: each is staged by one writer at a time.")
ATTEMPT = _number("attempt", "Which attempt at this part; the commit chooses one.")
NUMBER = _number(
    "number", "Counts the requests of an attempt from 0 on; one that was sent before is not kept twice."
)
DEFER_MS = Parameter(
    name="defer_ms",
    kind=Kind.INTEGER,
    example="5000",
    description="Milliseconds after the commit for which no consumer gets the messages; at most "
    "--max-req-timeout.",
)


class CommitPart(msgspec.Struct, forbid_unknown_fields=True):
    """The attempt of a part that counts, and how many requests and messages it staged."""

    part: int
    attempt: int
    records: int
    messages: int


class CommitRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a commit."""

    parts: list[CommitPart]


class TxnApi:
    """The handlers."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._broker, self._options = services.broker, services.options
        self._transactions = services.broker.transactions

    def stage(self, request: Request) -> Response:
        txn, topic = _txn(request), topic_name(request)
        key = integer(request, "part", most=MAX_PART), integer(request, "attempt", most=MAX_NUMBER)
        number = integer(request, "number", most=MAX_PART)
        defer_ms = integer(request, "defer_ms", 0, most=self._options.max_req_timeout_ns // 1_000_000)
        if is_ephemeral(topic):
            raise HttpError(400, "INVALID_TOPIC", reason="an ephemeral topic has no log to keep a promise")
        if self._broker.refusal:
            raise refusal(self._broker.refusal)
        messages = self._messages(request)
        try:
            stored = self._transactions.stage(
                txn,
                key,
                number,
                topic=topic,
                messages=messages,
                defer_ms=defer_ms,
                owner=self._owner(request),
            )
        except TransactionError as error:
            raise _refused(error) from error
        except FAILURES as error:
            raise refused(error) from error
        return json_response(TxnStageAnswer(already=not stored))

    def _messages(self, request: Request) -> Messages:
        options = self._options
        try:
            return decode_binary(
                request.body, max_msg_size=options.max_msg_size, max_body_size=options.max_body_size
            )
        except ClientError as error:
            raise HttpError(413, error.code.removeprefix("E_"), reason=error.description) from error

    async def commit(self, request: Request) -> Response:
        txn = _txn(request)
        try:
            wanted = msgspec.json.decode(request.body, type=CommitRequest)
        except (msgspec.DecodeError, RecursionError) as error:
            raise HttpError(400, "INVALID_BODY", reason=str(error)[:200]) from error
        check_running(self._broker)
        self._check_permission(request, txn)
        chosen = [ChosenPart(each.part, each.attempt, each.records, each.messages) for each in wanted.parts]
        try:
            outcome = await self._transactions.commit(txn, chosen, self._owner(request))
        except TransactionError as error:
            raise _refused(error) from error
        except FAILURES as error:
            raise refused(error) from error
        return json_response(TxnCommitAnswer(*outcome))

    def abort(self, request: Request) -> Response:
        txn = _txn(request)
        check_running(self._broker)
        self._check_permission(request, txn)
        try:
            self._transactions.abort(txn, self._owner(request))
        except TransactionError as error:
            raise _refused(error) from error
        except FAILURES as error:
            raise refused(error) from error
        return Response(200)

    def state(self, request: Request) -> Response:
        txn = _txn(request)
        transaction = self._transactions.open.get(txn)
        parts = {} if transaction is None else transaction.parts
        return json_response(
            TxnStateAnswer(
                txn=str(txn),
                state=self._transactions.state_of(txn),
                parts=[
                    TxnPartAnswer(part, attempt, len(staged.records), staged.message_count, staged.nbytes)
                    for (part, attempt), staged in sorted(parts.items())
                ],
            )
        )

    def _owner(self, request: Request) -> str:
        """Who the auth server says it is; "" where nobody has to say."""
        state = self._identity(request)
        return "" if state is None else state.identity

    def _check_permission(self, request: Request, txn: TxnId) -> None:
        """To commit is to publish; to abort is to decide about what others, who may publish, have sent."""
        state, transaction = self._identity(request), self._transactions.open.get(txn)
        for topic in transaction.topics if state is not None and transaction is not None else ():
            assert state is not None
            if not is_allowed(state, Access.PUBLISH, topic, ""):
                raise HttpError(403, "FORBIDDEN", reason=f"needed: {Access.PUBLISH.value} {topic}")

    def _identity(self, request: Request) -> "AuthState | None":
        identities = self._services.identities
        if identities is None:
            return None
        state = identities.known(request)
        if state is None:  # it has just expired, between the guard and here
            raise HttpError(503, "AUTH_UNAVAILABLE", reason="not known any more who you are: send it again")
        return state


def _txn(request: Request) -> TxnId:
    txn = TxnId.parse(text(request, "txn"))
    if txn is None:
        raise HttpError(400, "INVALID_ARG_TXN", reason="txn must be <producer>.<number>")
    return txn


def _refused(error: TransactionError) -> HttpError:
    if isinstance(error, RefusedError):
        return refusal(error.reason)
    return HttpError(*_CODES[type(error)], reason=error.reason)


_TXN_ERRORS = ((400, "MISSING_ARG_TXN"), (400, "INVALID_ARG_TXN"))


def endpoints(services: Services) -> list[Endpoint]:
    api = TxnApi(services)
    return [_stage_endpoint(api, services), _commit_endpoint(api), _abort_endpoint(api), _state_endpoint(api)]


def _stage_endpoint(api: TxnApi, services: Services) -> Endpoint:
    return Endpoint(
        method="POST",
        path="/txn/stage",
        handler=api.stage,
        access=Access.PUBLISH,
        tag="transactions",
        summary="Keep messages for a transaction",
        description="Nobody is sent them before the transaction is committed. They survive a crash of nsqd. "
        "Messages of an attempt that is not chosen, and of a transaction that is not committed within "
        "--txn-timeout, are dropped. For a transaction that is committed nothing is kept.",
        parameters=(TXN, PART, ATTEMPT, NUMBER, TOPIC, DEFER_MS),
        body=RequestBody(
            description="A 4-byte count and for each message its 4-byte size and its bytes, all big-endian.",
            max_bytes=services.options.max_body_size,
        ),
        replies={
            200: Reply(
                description="Kept; `already` when that was not needed.",
                content_type=JSON,
                schema=ref(TxnStageAnswer),
                example={"already": False},
            )
        },
        errors=(
            *_TXN_ERRORS,
            (400, "MISSING_ARG_TOPIC"),
            (400, "INVALID_TOPIC"),
            *_missing_or_invalid("PART"),
            *_missing_or_invalid("ATTEMPT"),
            *_missing_or_invalid("NUMBER"),
            (400, "INVALID_ARG_DEFER_MS"),
            (413, "BAD_BODY"),
            (413, "BAD_MESSAGE"),
            (403, "FORBIDDEN"),
            (409, "RECORD_MISSING"),
            (409, "RECORD_DIFFERS"),
            (503, "TXN_FULL"),
            (503, "TXN_BUSY"),
            *UNAVAILABLE,
        ),
    )


def _missing_or_invalid(name: str) -> tuple[tuple[int, str], tuple[int, str]]:
    return (400, f"MISSING_ARG_{name}"), (400, f"INVALID_ARG_{name}")


def _commit_endpoint(api: TxnApi) -> Endpoint:
    return Endpoint(
        method="POST",
        path="/txn/commit",
        handler=api.commit,
        access=Access.AUTHENTICATED,
        tag="transactions",
        summary="Make the messages of a transaction visible, all at once and once only",
        description="With an auth server, only who staged it and may publish to all its topics may. Topics "
        "that do not exist are made. A transaction that was committed before, or one with a lower number, is "
        "left as it is. After an answer of 503 it may be decided already, and happens as soon as it can: "
        "commit it again. `lost` is not 0 only if the disk damaged messages that were committed before a "
        "crash.",
        parameters=(TXN,),
        body=RequestBody(
            description="The attempt that counts for each part, and how many requests and messages it has.",
            max_bytes=MAX_COMMIT_BYTES,
            content_type=JSON,
            example={"parts": [{"part": 0, "attempt": 0, "records": 1, "messages": 10}]},
        ),
        replies={
            200: Reply(
                description="In the logs, durable and visible.",
                content_type=JSON,
                schema=ref(TxnCommitAnswer),
                example={"already": False, "messages": 10, "lost": 0},
            )
        },
        errors=(
            *_TXN_ERRORS,
            (400, "INVALID_BODY"),
            (403, "FORBIDDEN"),
            (404, "TXN_NOT_FOUND"),
            (409, "TXN_INCOMPLETE"),
            (429, "TOO_MANY_TOPICS"),
            (503, "TXN_FULL"),
            *UNAVAILABLE,
        ),
        deadline_s=COMMIT_DEADLINE_S,
    )


def _abort_endpoint(api: TxnApi) -> Endpoint:
    return Endpoint(
        method="POST",
        path="/txn/abort",
        handler=api.abort,
        access=Access.AUTHENTICATED,
        tag="transactions",
        summary="Drop what was staged for a transaction",
        parameters=(TXN,),
        errors=(*_TXN_ERRORS, (403, "FORBIDDEN"), (409, "TXN_COMMITTED"), (503, "TXN_BUSY"), *UNAVAILABLE),
    )


def _state_endpoint(api: TxnApi) -> Endpoint:
    return Endpoint(
        method="GET",
        path="/txn",
        handler=api.state,
        access=Access.AUTHENTICATED,
        tag="transactions",
        summary="What is known of a transaction",
        parameters=(TXN,),
        replies={200: Reply(description="Its state.", content_type=JSON, schema=ref(TxnStateAnswer))},
        errors=_TXN_ERRORS,
    )
