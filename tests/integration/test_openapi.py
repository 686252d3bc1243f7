"""A running nsqd behaves as its `/openapi.json` says, whatever a client makes up."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from hypothesis.strategies import SearchStrategy
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from nsqlake.testing.nsqd import NsqdFixture, running_nsqd
from tests.fakes.http_connection import HttpConnection

# What ends the daemon, takes its time by design, or is only another name.
LEFT_OUT = r"^/(drain|debug/pprof/(profile|heap)|put|mput|[a-z]+_(topic|channel))$"
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


@pytest.fixture(scope="module")
def described() -> Iterator[NsqdFixture]:
    """With the topic and channel that the examples of the description name."""
    with running_nsqd() as nsqd:
        with HttpConnection(nsqd.http_address) as http:
            http.post("/topic/create?topic=orders")
            http.post("/channel/create?topic=orders&channel=archive")
        yield nsqd


@pytest.fixture(scope="module")
def api(described: NsqdFixture) -> Any:
    schema = schemathesis.openapi.from_url(f"http://{described.http_address}/openapi.json")
    # The level of the log is that of this whole process.
    return schema.exclude(path_regex=LEFT_OUT).exclude(method="PUT", path="/config/{key}")


@pytest.fixture(autouse=True)
def _examples_exist(described: NsqdFixture) -> None:
    with HttpConnection(described.http_address) as http:
        http.post("/pub?topic=orders", b"something to look at")
        http.post("/channel/create?topic=orders&channel=archive")


def test_the_description_is_valid_openapi(api: Any) -> None:
    api.validate()


@pytest.mark.slow
@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
def test_every_answer_is_one_that_is_described(api: Any, mode: GenerationMode) -> None:
    operations = [found.ok() for found in api.get_all_operations()]

    for operation in operations:
        for strategy in (*operation.get_strategies_from_examples(), operation.as_strategy(mode)):
            send_all(strategy)

    assert len(operations) > 30


def send_all(cases: SearchStrategy[Any]) -> None:
    @settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(cases)
    def send(case: Any) -> None:
        case.call_and_validate(checks=CHECKS)

    with suppress(Unsatisfiable):  # an operation without parameters cannot be asked wrongly
        send()
