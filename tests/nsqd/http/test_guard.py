"""`Guard` without an auth server: who is on this machine, and what is answered when something fails."""

import asyncio
import errno
import json

import pytest

from nsqlake.nsqd.broker import CreationError
from nsqlake.nsqd.http.answering import Answer, settle
from nsqlake.nsqd.http.endpoints import TOPIC, Access, Endpoint
from nsqlake.nsqd.http.guard import Guard
from nsqlake.runtime.http import Handler, HttpError, Later, Request, Response, error_response, text_response
from tests.nsqd.http.requests import new_request


def protected(handler: Handler, access: Access) -> Handler:
    endpoint = Endpoint(
        method="POST",
        path="/x",
        handler=handler,
        access=access,
        tag="t",
        summary="s",
        parameters=(TOPIC,),
    )
    return Guard(None).protect(endpoint)


def answered(handler: Handler, request: Request) -> Response:
    async def run() -> Response:
        try:
            return await settle(handler(request))
        except HttpError as error:
            return error_response(error)

    return asyncio.run(run())


def ok(_request: Request) -> Response:
    return text_response("OK")


@pytest.mark.parametrize("access", Access)
@pytest.mark.parametrize("is_loopback", [True, False])
def test_only_the_machine_itself_is_closed_to_others(access: Access, is_loopback: bool) -> None:
    answer = answered(protected(ok, access), new_request("/x?topic=t", is_loopback=is_loopback))

    is_refused = access is Access.LOOPBACK_OR_ADMIN and not is_loopback
    assert answer.status == (403 if is_refused else 200)
    assert not is_refused or json.loads(answer.body)["message"] == "FORBIDDEN"


@pytest.mark.parametrize("access", [Access.OPEN, Access.SUBSCRIBE, Access.ADMIN])
@pytest.mark.parametrize("is_async", [True, False])
def test_what_the_disk_refuses_is_answered_with_the_reason(access: Access, is_async: bool) -> None:
    def fail(_request: Request) -> Answer:
        if is_async:
            return fail_later()
        raise OSError(errno.ENOSPC, "")

    async def fail_later() -> Response:
        raise OSError(errno.ENOSPC, "")

    answer = answered(protected(fail, access), new_request("/x?topic=t"))

    assert (answer.status, answer.body) == (
        503,
        b'{"message":"DISK_FULL","reason":"disk full: no space left on device"}',
    )


def test_what_the_broker_refuses_is_answered_too() -> None:
    def fail(_request: Request) -> Answer:
        raise CreationError("too many topics, --max-topics is 1", code="E_BAD_TOPIC")

    assert answered(protected(fail, Access.ADMIN), new_request("/x?topic=t")).status == 429


def test_an_answer_that_comes_later_is_waited_for_and_recorded(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "nsqlake")
    later = Later()
    later.resolve(text_response("done"))

    answer = answered(protected(lambda _: later, Access.ADMIN), new_request("/x?topic=t"))

    assert answer.body == b"done"
    assert caplog.messages == ["ADMIN(-@10.0.0.7:5): POST /x topic=t -> 200"]


def test_an_error_of_our_own_is_recorded_as_one(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "nsqlake")

    def fail(_request: Request) -> Answer:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        answered(protected(fail, Access.ADMIN), new_request("/x?topic=t"))

    assert caplog.messages == ["ADMIN(-@10.0.0.7:5): POST /x topic=t -> 500"]
