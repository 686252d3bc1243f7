"""One node asked over HTTP: what is retried, what is refused, and what never hangs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from nsqlake.spark.errors import NodeError, OptionError, RefusedError
from nsqlake.spark.node_client import FIRST_PAUSE_S, NodeClient, client_for
from nsqlake.spark.options import Access
from tests.fakes.certificates import CertificateAuthority
from tests.fakes.http_node import DROP, STALL, FakeHttpNode, Reply, http_node, json_reply

BUSY = json_reply({"message": "EXITING"}, 503)
FINE = json_reply({"fine": True})
NOWHERE = "127.0.0.1:1"


@pytest.fixture
def node() -> Iterator[FakeHttpNode]:
    with http_node() as node:
        yield node


class Pauses(list[float]):
    """Stands for `time.sleep`."""

    def __call__(self, pause_s: float) -> None:
        self.append(pause_s)


def make_client(node: FakeHttpNode | str, pauses: Pauses | None = None, **access: object) -> NodeClient:
    address = node if isinstance(node, str) else node.address
    options = {"timeout_s": 5.0, "retries": 3, **access}
    return NodeClient(address, Access(nsqd=(address,), **options), Pauses() if pauses is None else pauses)  # type: ignore[arg-type]


def test_a_client_is_kept_for_a_node_and_its_access() -> None:
    access = Access(nsqd=("a:1",))

    assert client_for("a:1", access) is client_for("a:1", Access(nsqd=("a:1",)))
    assert client_for("a:1", access) is not client_for("b:1", access)
    assert client_for("a:1", access) is not client_for("a:1", Access(nsqd=("a:1",), retries=0))


def test_arguments_are_escaped_and_the_connection_is_kept(node: FakeHttpNode) -> None:
    node.answers["/x"] = FINE
    client = make_client(node)

    assert client.get_json("/x", {"topic": "a b&c=d"}) == {"fine": True}
    assert client.post_json("/x", {}, b"body") == {"fine": True}
    client.close()

    first, second = node.asked
    assert first.params == {"topic": "a b&c=d"}
    assert (second.method, second.body) == ("POST", b"body")
    assert first.connection == second.connection


def test_an_answer_without_a_body_is_none(node: FakeHttpNode) -> None:
    node.answers["/x"] = Reply()
    client = make_client(node)

    assert client.post_json("/x", {}) is None
    client.close()


@pytest.mark.parametrize("failure", [BUSY, DROP, json_reply({}, 429), Reply(raw=b"junk\r\n\r\n")])
def test_a_node_that_is_busy_or_fails_is_asked_again_after_a_pause(
    node: FakeHttpNode, failure: Reply
) -> None:
    node.answers["/x"] = [failure, failure, FINE]
    pauses = Pauses()
    client = make_client(node, pauses)

    assert client.get_json("/x") == {"fine": True}
    client.close()

    assert pauses == [FIRST_PAUSE_S, 2 * FIRST_PAUSE_S]


def test_a_node_that_is_down_is_named_after_the_last_try() -> None:
    pauses = Pauses()

    with pytest.raises(NodeError, match=r"^node 127\.0\.0\.1:1: /x failed 4 times: .*refused"):
        make_client(NOWHERE, pauses).get_json("/x")

    assert len(pauses) == 3


def test_pauses_do_not_grow_for_ever() -> None:
    pauses = Pauses()

    with pytest.raises(NodeError):
        make_client(NOWHERE, pauses, retries=10).get_json("/x")

    assert pauses[-1] == 5.0


def test_a_node_that_stays_busy_says_why(node: FakeHttpNode) -> None:
    node.answers["/x"] = json_reply({"message": "DISK_FULL", "reason": "no space"}, 503)
    client = make_client(node)

    with pytest.raises(NodeError, match="/x failed 4 times: answered 503 DISK_FULL: no space"):
        client.get_json("/x")
    client.close()


def test_a_refusal_is_final_and_carries_code_and_headers(node: FakeHttpNode) -> None:
    node.answers["/x"] = Reply(b'{"message": "NOPE", "reason": "because"}', 416, {"X-Nsq-Log-First": "7"})
    client = make_client(node)

    with pytest.raises(RefusedError, match="answered 416 NOPE: because") as refused:
        client.get_json("/x")
    client.close()

    assert (refused.value.status, refused.value.code) == (416, "NOPE")
    assert refused.value.headers["x-nsq-log-first"] == "7"
    assert not refused.value.retriable
    assert len(node.asked) == 1


@pytest.mark.parametrize("body", [b"", b"not json", b"[]", b'"text"', b"{}"])
def test_a_refusal_without_a_reason_has_its_status(node: FakeHttpNode, body: bytes) -> None:
    node.answers["/x"] = Reply(body, 400)
    client = make_client(node)

    with pytest.raises(RefusedError, match=r"answered 400$"):
        client.get_json("/x")
    client.close()


def test_an_answer_that_is_not_json_names_the_node(node: FakeHttpNode) -> None:
    node.answers["/x"] = Reply(b"<html>")
    client = make_client(node)

    with pytest.raises(NodeError, match=f"node {node.address}: /x gave an answer that is not JSON"):
        client.get_json("/x")
    client.close()


def test_a_connection_that_was_closed_meanwhile_costs_no_try(node: FakeHttpNode) -> None:
    node.answers["/x"] = Reply(FINE.body, closes=True)
    pauses = Pauses()
    client = make_client(node, pauses, retries=0)

    assert [client.get_json("/x") for _ in range(3)] == [{"fine": True}] * 3
    client.close()

    assert not pauses


def test_a_hanging_node_fails_in_time(node: FakeHttpNode) -> None:
    node.answers["/x"] = STALL
    client = make_client(node, timeout_s=0.05, retries=1)

    with pytest.raises(NodeError, match="/x failed 2 times: timed out"):
        client.get_json("/x")
    client.close()


def test_an_answer_that_ends_too_early_is_asked_for_again(node: FakeHttpNode) -> None:
    half = Reply(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
    node.answers["/x"] = [half, FINE]
    client = make_client(node)

    assert client.get_json("/x") == {"fine": True}
    client.close()


@pytest.mark.parametrize("head", [b"Transfer-Encoding: chunked", b"Content-Length: 99999999999999"])
def test_an_answer_of_unknown_or_absurd_length_is_not_read(node: FakeHttpNode, head: bytes) -> None:
    node.answers["/x"] = Reply(raw=b"HTTP/1.1 200 OK\r\n" + head + b"\r\n\r\n")
    client = make_client(node, retries=0)

    with pytest.raises(NodeError, match=r"an answer of (unknown|99999999999999) bytes"):
        client.get_json("/x")


def test_large_answers_share_one_buffer(node: FakeHttpNode) -> None:
    node.answers["/x"] = Reply(bytes(3_000_000))
    client = make_client(node)

    first = client.request("GET", "/x", {}).body.obj
    second = client.request("GET", "/x", {}).body

    assert second.obj is first
    assert second == bytes(3_000_000)
    client.close()


def test_the_secret_goes_along_and_is_not_shown(node: FakeHttpNode) -> None:
    node.answers["/x"] = FINE
    access = Access(nsqd=(node.address,), secret="s3cret")
    client = NodeClient(node.address, access)

    client.get_json("/x")
    client.close()

    assert node.asked[0].headers["authorization"] == "Bearer s3cret"
    assert "s3cret" not in repr(access)


# TLS --------------------------------------------------------------------------------------------------


@pytest.fixture
def authority(tmp_path: Path) -> CertificateAuthority:
    return CertificateAuthority(str(tmp_path))


def test_https_with_a_trusted_certificate(authority: CertificateAuthority) -> None:
    with http_node(authority.issue_server()) as node:
        node.answers["/x"] = FINE
        client = make_client(f"https://{node.address}", root_ca_file=authority.ca_file)

        assert client.get_json("/x") == {"fine": True}
        client.close()


def test_an_unknown_certificate_is_refused_at_once(authority: CertificateAuthority) -> None:
    pauses = Pauses()
    with (
        http_node(authority.issue_server()) as node,
        pytest.raises(NodeError, match="its certificate is not trusted"),
    ):
        make_client(f"https://{node.address}", pauses).get_json("/x")

    assert not pauses


def test_an_unknown_certificate_can_be_accepted_on_purpose(authority: CertificateAuthority) -> None:
    with http_node(authority.issue_server()) as node:
        node.answers["/x"] = FINE
        client = make_client(f"https://{node.address}", verify=False)

        assert client.get_json("/x") == {"fine": True}
        client.close()


@pytest.mark.parametrize(
    ("option", "access"),
    [
        ("tlsRootCaFile", {"root_ca_file": "/nowhere/ca.pem"}),
        ("tlsCert", {"cert_file": "/nowhere/c.pem", "key_file": "/nowhere/k.pem"}),
    ],
)
def test_files_of_tls_that_cannot_be_used_are_named(option: str, access: dict[str, str]) -> None:
    with pytest.raises(OptionError, match=rf"option {option} '/nowhere/.*cannot be used: .*No such file"):
        make_client("https://127.0.0.1:1", **access).get_json("/x")


def test_a_client_certificate_is_shown(authority: CertificateAuthority) -> None:
    pair = authority.issue_client()
    with http_node(authority.issue_server()) as node:
        node.answers["/x"] = FINE
        client = make_client(
            f"https://{node.address}",
            root_ca_file=authority.ca_file,
            cert_file=pair.cert_file,
            key_file=pair.key_file,
        )

        assert client.get_json("/x") == {"fine": True}
        client.close()
