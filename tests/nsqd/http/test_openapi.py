"""`/openapi.json`: complete, and derived from the table alone."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from nsqlake.nsqd.access import Access
from nsqlake.nsqd.http.endpoints import JSON, TEXT, Endpoint, Kind, Parameter, Reply, RequestBody
from nsqlake.nsqd.http.openapi import describe
from nsqlake.runtime.http import Response
from nsqlake.runtime.http.router import DISCARDED_BODY_BYTES
from nsqlake.testing.nsqd import NsqdFixture
from tests.fakes.http_connection import HttpConnection
from tests.nsqd.http.support import asked_nsqd, refusal

ROW = Endpoint(
    method="PUT",
    path="/thing/{key}",
    handler=lambda _: Response(),
    access=Access.ADMIN,
    tag="things",
    summary="Change a thing",
    description="Or two.",
    parameters=(
        Parameter(name="key", in_path=True, required=True, example="k", description="Which."),
        Parameter(name="count", kind=Kind.INTEGER, example="2", description="How many."),
        Parameter(name="colour", description="Of what colour."),
    ),
    body=RequestBody(description="The thing.", max_bytes=10, example="x", content_type=TEXT),
    replies={
        200: Reply(description="Done.", content_type=JSON, also={TEXT: {}}, headers={"X-A": "a"}, example=1)
    },
    errors=((400, "BAD"), (400, "WORSE"), (404, "GONE")),
    deprecated=True,
)


@pytest.fixture(scope="module")
def asked() -> Iterator[tuple[NsqdFixture, HttpConnection]]:
    with asked_nsqd() as both:
        yield both


@pytest.fixture(scope="module")
def document(asked: tuple[NsqdFixture, HttpConnection]) -> dict[str, Any]:
    described: dict[str, Any] = asked[1].get_json("/openapi.json")
    return described


def operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (method.upper(), path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]


def test_every_endpoint_is_described_and_nothing_else(
    asked: tuple[NsqdFixture, HttpConnection], document: dict[str, Any]
) -> None:
    served = asked[0].call(lambda daemon: [(each.method, each.path) for each in daemon.api.endpoints])

    described = [(method, path) for method, path, _ in operations(document)]

    assert sorted(described) == sorted(served)
    assert len(described) > 40


def test_every_described_operation_is_served(
    asked: tuple[NsqdFixture, HttpConnection], document: dict[str, Any]
) -> None:
    for method, path, _ in operations(document):
        allowed = asked[1].ask("OPTIONS", path.replace("{key}", "log_level")).headers.get("allow", "")
        assert method in allowed, path


def test_every_reference_leads_to_a_schema(document: dict[str, Any]) -> None:
    named = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(document)))

    assert named <= document["components"]["schemas"].keys()
    assert {"Stats", "Info", "ErrorAnswer", "PeekAnswer"} <= named


def test_names_of_operations_are_unique_and_all_have_a_summary(document: dict[str, Any]) -> None:
    names = [operation["operationId"] for _, _, operation in operations(document)]

    assert len(set(names)) == len(names)
    assert all(operation["summary"] for _, _, operation in operations(document))


def test_a_row_says_it_all() -> None:
    operation = describe([ROW])["paths"]["/thing/{key}"]["put"]

    assert (operation["tags"], operation["summary"], operation["description"]) == (
        ["things"],
        "Change a thing",
        "Or two.",
    )
    assert operation["deprecated"] is True
    assert operation["security"] == [{"bearer": []}, {"basic": []}, {}]
    assert operation["requestBody"]["required"] is True
    assert operation["requestBody"]["content"]["text/plain"]["example"] == "x"


def test_parameters_have_their_place_and_type() -> None:
    key, number, colour = describe([ROW])["paths"]["/thing/{key}"]["put"]["parameters"]

    assert (key["in"], key["required"], key["example"]) == ("path", True, "k")
    assert (number["in"], number["schema"]["type"], number["example"]) == ("query", "integer", 2)
    assert (colour["in"], "example" in colour) == ("query", False)


def test_answers_and_errors_by_status() -> None:
    responses = describe([ROW])["paths"]["/thing/{key}"]["put"]["responses"]

    assert responses["200"]["content"].keys() == {"application/json", "text/plain"}
    assert responses["200"]["headers"]["X-A"]["description"] == "a"
    refused = responses["400"]["content"]["application/json"]["schema"]["allOf"][1]
    assert refused["properties"]["message"]["enum"] == ["BAD", "WORSE", "INVALID_REQUEST"]
    assert responses["404"]["description"] == "GONE"
    assert {"401", "403", "413", "500", "503"} <= responses.keys()


def test_a_body_that_is_too_big_has_the_code_of_its_endpoint(document: dict[str, Any]) -> None:
    codes = {
        path: document["paths"][path]["post"]["responses"]["413"]["description"]
        for path in ("/pub", "/mpub", "/topic/create")
    }

    assert codes == {
        "/pub": "MSG_TOO_BIG",
        "/mpub": "MSG_TOO_BIG, BAD_BODY, BAD_MESSAGE, BODY_TOO_BIG",
        "/topic/create": "BODY_TOO_BIG",
    }


def test_every_endpoint_refuses_a_body_beyond_its_limit_and_has_a_deadline(
    asked: tuple[NsqdFixture, HttpConnection],
) -> None:
    nsqd = asked[0]
    rows = nsqd.call(lambda daemon: daemon.api.endpoints)

    for row in rows:
        target = row.path.replace("{key}", "log_level")
        length = 1 + max(row.body.max_bytes if row.body else 0, DISCARDED_BODY_BYTES)
        head = f"{row.method} {target} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n"
        with HttpConnection(nsqd.http_address) as http:
            http.send(head.encode())
            assert refusal(http.answer()) == row.too_big, row.path
        assert 0 < row.deadline_s <= 300, row.path
