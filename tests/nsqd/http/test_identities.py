"""`Identities` against a real auth server on loopback, with a clock the test moves."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from nsqlake.nsqd.auth import AuthServers
from nsqlake.nsqd.http import identities
from nsqlake.nsqd.http.identities import Identities, secret_of
from nsqlake.runtime.http import HttpError, Request
from nsqlake.testing.clock import ManualClock
from tests.fakes.auth_server import FakeAuthServer
from tests.nsqd.http.requests import new_request

Scenario = Callable[[Identities, FakeAuthServer, ManualClock], Awaitable[None]]


def bearer(secret: str = "secret", **peer: object) -> Request:
    return new_request(headers={"Authorization": f"Bearer {secret}"}, **peer)


def run(scenario: Scenario) -> None:
    async def main() -> None:
        clock = ManualClock()
        async with FakeAuthServer() as server:
            servers = AuthServers((server.address,), clock=clock)
            await scenario(Identities(servers), server, clock)
            await servers.close()

    asyncio.run(main())


def test_what_was_asked_is_known_until_it_expires() -> None:
    async def scenario(known: Identities, server: FakeAuthServer, clock: ManualClock) -> None:
        assert known.known(bearer()) is None
        state = await known.identify(bearer())

        assert known.known(bearer()) is state
        clock.advance_ms(60_000)
        assert known.known(bearer()) is None
        assert len(known) == 0

    run(scenario)


def test_an_answer_is_for_one_secret_address_and_certificate() -> None:
    async def scenario(known: Identities, server: FakeAuthServer, clock: ManualClock) -> None:
        await known.identify(bearer())

        others = [bearer("other"), bearer(ip="10.0.0.8"), bearer(common_name="x"), bearer(is_tls=True)]
        assert [known.known(other) for other in others] == [None] * 4

    run(scenario)


def test_many_who_ask_at_once_share_one_question() -> None:
    async def scenario(known: Identities, server: FakeAuthServer, clock: ManualClock) -> None:
        states = await asyncio.gather(*(known.identify(bearer()) for _ in range(5)))

        assert len({id(state) for state in states}) == 1
        assert len(server.requests) == 1

    run(scenario)


def test_only_so_many_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identities, "MAX_IDENTITIES", 2)

    async def scenario(known: Identities, server: FakeAuthServer, clock: ManualClock) -> None:
        for secret in ("a", "b", "c"):
            await known.identify(bearer(secret))

        assert [known.known(bearer(secret)) is not None for secret in ("a", "b", "c")] == [False, True, True]

    run(scenario)


def test_refusals_are_not_kept() -> None:
    async def scenario(known: Identities, server: FakeAuthServer, clock: ManualClock) -> None:
        server.reply = {"ttl": 60, "authorizations": []}
        with pytest.raises(HttpError) as caught:
            await known.identify(bearer())
        server.reply = {"ttl": 60, "authorizations": [{"topic": "t", "permissions": ["publish"]}]}

        assert (caught.value.status, caught.value.code) == (401, "UNAUTHORIZED")
        assert (await known.identify(bearer())).permission_count == 1

    run(scenario)


def test_secrets_are_not_kept_as_they_are() -> None:
    async def scenario(known: Identities, server: FakeAuthServer, clock: ManualClock) -> None:
        await known.identify(bearer("very-secret"))

        assert b"very-secret" not in b"".join(key[0] for key in known._states)

    run(scenario)


@pytest.mark.parametrize(
    ("header", "secret"),
    [
        ("Bearer abc", b"abc"),
        ("BEARER abc", b"abc"),
        ("Basic dXNlcjpwYTpzcw==", b"pa:ss"),
        ("Basic dXNlcjo=", None),
        ("Basic dXNlcg==", None),
        ("Basic ?", None),
        ("Bearer", None),
        ("Negotiate abc", None),
    ],
)
def test_where_the_secret_is(header: str, secret: bytes | None) -> None:
    assert secret_of(new_request(headers={"Authorization": header})) == secret
