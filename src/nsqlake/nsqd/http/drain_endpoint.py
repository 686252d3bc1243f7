"""Draining over HTTP; SIGUSR1 does the same."""

from nsqlake.nsqd.http.answers import DrainAnswer
from nsqlake.nsqd.http.endpoints import JSON, Access, Endpoint, Reply
from nsqlake.nsqd.http.schemas import ref
from nsqlake.nsqd.http.services import Services
from nsqlake.runtime.http import Request, Response, json_response

__all__ = ["endpoints"]


def endpoints(services: Services) -> list[Endpoint]:
    broker = services.broker

    def drain(request: Request) -> Response:
        broker.start_drain()
        return json_response(DrainAnswer(broker.draining))

    return [
        Endpoint(
            method="POST",
            path="/drain",
            handler=drain,
            access=Access.LOOPBACK_OR_ADMIN,
            tag="node",
            summary="Take no more messages, and stop when the last one is finished",
            description="Consumers go on; the node leaves the producer lists of nsqlookupd at "
            "once. It cannot be "
            "called off, only cut short by stopping the daemon: what is left then stays on disk.",
            replies={
                200: Reply(
                    description="It drains, now or already.",
                    content_type=JSON,
                    schema=ref(DrainAnswer),
                    example={"draining": True},
                )
            },
        )
    ]
