"""`/drain`."""

from tests.integration.support import eventually
from tests.nsqd.http.support import asked_nsqd, fill, refusal, said


def test_draining_refuses_messages_and_waits_for_those_that_are_there() -> None:
    with asked_nsqd() as (nsqd, http):
        fill(http, "t", b"a")

        assert said(http.post("/drain")) == {"draining": True}
        assert said(http.post("/drain")) == {"draining": True}

        assert refusal(http.post("/pub?topic=t", b"b")) == (503, "DRAINING")
        assert refusal(http.post("/topic/create?topic=new")) == (503, "DRAINING")
        assert not nsqd.call(lambda daemon: daemon.stopping.is_set())
        said(http.post("/channel/seek?topic=t&channel=c&to=latest"))
        eventually(lambda: nsqd.call(lambda daemon: daemon.stopping.is_set()))


def test_draining_has_to_be_asked_for_by_post() -> None:
    with asked_nsqd() as (nsqd, http):
        assert refusal(http.get("/drain")) == (405, "METHOD_NOT_ALLOWED")

        assert not nsqd.call(lambda daemon: daemon.broker.draining)
