"""Protocol V1 without a socket; the rows of the specification run over sockets in tests/integration."""

import random
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nsqlake.nsqlookupd.registration_db import Registration, RegistrationDb
from nsqlake.nsqlookupd.session import Change, Session
from nsqlake.wire.lookup_commands import ReplyReader
from tests.fakes.lookup_client import identify, identify_with
from tests.nsqlookupd.support import NOW_NS, hosts, new_db

DESCRIPTION = b'{"me":1}'
CONVERSATION = b"".join(
    [
        b"  V1",
        b"PING\n",
        identify(),
        b"REGISTER t c\n",
        b"UNREGISTER t c\n",
        b"PING\n",
        b"NONSENSE\n",
        b"PING\n",
    ]
)
REPLIES = [b"OK", DESCRIPTION, b"OK", b"OK", b"OK", b"E_INVALID invalid command NONSENSE"]


def new_session(db: RegistrationDb | None = None, **options: object) -> Session:
    return Session("1.2.3.4:5", db or new_db(), DESCRIPTION, **options)  # type: ignore[arg-type]


def talk(session: Session, *pieces: bytes, now_ns: int = NOW_NS) -> list[bytes]:
    reader, replies = ReplyReader(1_000_000), []
    for piece in pieces:
        session.feed(piece)
        while not session.is_waiting:
            replies += reader.feed(session.handle(now_ns))
    return replies


def identified(db: RegistrationDb, **options: object) -> Session:
    session = new_session(db, **options)
    assert talk(session, b"  V1" + identify()) == [DESCRIPTION]
    return session


def test_the_same_conversation_in_any_pieces() -> None:
    rng = random.Random(2)
    for count in (0, 1, 2, 5, 20, len(CONVERSATION) - 1):
        cuts = sorted(rng.sample(range(1, len(CONVERSATION)), count))
        bounds = zip([0, *cuts], [*cuts, len(CONVERSATION)], strict=True)

        session = new_session()

        assert talk(session, *(CONVERSATION[start:end] for start, end in bounds)) == REPLIES
        assert session.is_over


def test_no_more_commands_are_handled_than_asked_for() -> None:
    session = new_session()
    session.feed(b"  V1" + b"PING\n" * 5)

    assert session.handle(NOW_NS, 3).count(b"OK") == 3
    assert not session.is_waiting
    assert session.handle(NOW_NS, 3).count(b"OK") == 2
    assert session.is_waiting
    assert (session.command_count, session.pending_bytes) == (5, 0)


def test_only_identify_and_ping_are_signs_of_life() -> None:
    db = new_db()
    session = identified(db)
    (peer,) = db.peers()

    talk(session, b"REGISTER t\nUNREGISTER t\n", now_ns=NOW_NS + 7)
    assert peer.last_update_ns == NOW_NS
    talk(session, b"PING\n", now_ns=NOW_NS + 8)

    assert peer.last_update_ns == NOW_NS + 8


def test_changes_are_told() -> None:
    session = identified(new_db())

    talk(session, b"REGISTER t c\nREGISTER t c\nUNREGISTER t\n")

    assert session.changes == [
        Change("REGISTER", Registration("client")),
        Change("REGISTER", Registration("channel", "t", "c")),
        Change("REGISTER", Registration("topic", "t")),
        Change("UNREGISTER", Registration("channel", "t", "c")),
        Change("UNREGISTER", Registration("topic", "t")),
    ]


def test_one_registration_too_many_is_refused_and_nothing_else_is_lost() -> None:
    db = new_db(max_registrations=2)
    session = identified(db)

    replies = talk(session, b"REGISTER t c\nREGISTER u\nPING\n")

    text = b"E_TOO_MANY_REGISTRATIONS REGISTER limit of 2 registrations in all reached"
    assert replies == [b"OK", text, b"OK"]
    assert not session.is_over
    assert [error.fatal for error in session.errors] == [False]
    assert hosts(db.producers("t", NOW_NS)) == ["h1"]


def test_nothing_is_read_after_a_fatal_error() -> None:
    session = new_session()
    talk(session, b"  V1BAD\n")

    session.feed(b"x" * 100_000)

    assert session.handle(NOW_NS) == session.end_of_input() == b""
    assert session.pending_bytes < 100


def test_a_broken_body_is_answered_at_the_end() -> None:
    for received, missing in ((b"", b"body size"), (b"\0\0\0\5ab", b"body")):
        session = new_session()
        talk(session, b"  V1IDENTIFY\n" + received)

        assert session.end_of_input()[4:] == b"E_BAD_BODY IDENTIFY failed to read " + missing


def test_a_broken_line_is_not_answered_at_the_end() -> None:
    session = new_session()
    talk(session, b"  V1PING")

    assert session.end_of_input() == b""
    assert session.is_over


def test_the_peer_goes_with_its_session() -> None:
    db = new_db()
    session = identified(db)

    session.close()
    session.close()

    assert db.peers() == ()


def test_only_addresses_of_the_certificate_may_be_announced() -> None:
    db = new_db()
    identified(db, certified_addresses=frozenset({"h1", "10.0.0.1"}))

    refused = new_session(db, certified_addresses=frozenset({"h2"}))
    replies = talk(refused, b"  V1" + identify())

    assert replies == [b"E_BAD_BODY IDENTIFY broadcast_address 'h1' is not in the certificate"]
    assert len(db.peers()) == 1


@pytest.mark.parametrize("size", [-1, -(2**31), 1_048_577, 2**31 - 1])
def test_sizes_that_cannot_be_end_the_session_at_once(size: int) -> None:
    session = new_session()

    replies = talk(session, b"  V1IDENTIFY\n" + struct.pack(">i", size))

    assert replies == [b"E_BAD_BODY IDENTIFY failed to read body size"]


PIECES = st.sampled_from(
    [
        b"  V1",
        b"PING\n",
        b"REGISTER t c\n",
        b"UNREGISTER t\n",
        b"IDENTIFY\n",
        b"\n",
        b" ",
        b"\r\n",
        b"\0\0\0\2{}",
        b"REGISTER \xff\n",
        b"\xff\xff\xff\xff",
        identify(),
        identify_with(b"[]"),
        identify_with(b"\xff"),
    ]
)


@settings(max_examples=200)
@given(st.lists(PIECES | st.binary(max_size=20), max_size=12), st.booleans())
def test_any_bytes_are_answered_and_never_raise(pieces: list[bytes], has_magic: bool) -> None:
    db = new_db()
    session = new_session(db)

    replies = talk(session, *([b"  V1"] if has_magic else []), *pieces)
    session.end_of_input()
    session.close()

    errors = [reply for reply in replies if reply.startswith(b"E_")]
    assert len(errors) <= 1
    assert not errors or errors[0] == replies[-1]
    assert db.peers() == ()
