"""A connection over real sockets: the rules of transport, limits and deadlines."""

import asyncio
import logging
import socket
import struct

import pytest

from nsqlake.runtime.http import (
    FileResponse,
    HttpLimits,
    Later,
    Response,
    Route,
    json_response,
    text_response,
)
from nsqlake.runtime.input_budget import InputBudget
from tests.fakes.http_client import HttpClient, request_bytes
from tests.fakes.loop_turns import wait_until
from tests.runtime.http.support import LOOPS, OK, Running, scenario_on

JSON = "application/json; charset=utf-8"


@pytest.fixture(params=list(LOOPS))
def serve(request):
    return lambda scenario, **options: scenario_on(request.param, scenario, **options)


def message(code: str) -> bytes:
    return b'{"message":"%s"}' % code.encode()


def test_requests_of_one_connection_are_answered_in_order(serve):
    async def scenario(running: Running) -> None:
        client = await running.connect()
        for number in range(5):
            answer = await client.ask("POST", "/echo", b"%d" % number)
            assert (answer.status, answer.body) == (200, b"%d" % number)
        assert len(running.server.connections) == 1

    serve(scenario)


def test_pipelined_requests_are_answered_in_order_even_if_one_takes_time(serve):
    async def scenario(running: Running) -> None:
        client = await running.connect()
        client.send(request_bytes("POST", "/echo", b"1") + request_bytes("POST", "/later", b"2"))
        client.send(request_bytes("POST", "/echo", b"3") + request_bytes("GET", "/refuse"))
        assert (await client.answer()).body == b"1"
        await wait_until(lambda: len(running.site.laters) == 1)
        assert len(running.site.seen) == 1

        running.site.laters[0].resolve(text_response("2"))

        assert [(await client.answer()).body for _ in range(3)] == [b"2", b"3", message("TOPIC_NOT_FOUND")]

    serve(scenario)


def test_a_flood_of_pipelined_requests_is_answered_whole(serve):
    async def scenario(running: Running) -> None:
        client, other = await running.connect(), await running.connect()
        client.send(request_bytes("GET", "/ping") * 2_000)
        assert (await other.ask("GET", "/ping")).status == 200
        assert [(await client.answer()).body for _ in range(2_000)] == [b"OK"] * 2_000

    serve(scenario)


def test_a_body_of_tiny_chunks_is_taken_whole_and_holds_up_nobody(serve):
    head = b"POST /big HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"

    async def scenario(running: Running) -> None:
        client, other = await running.connect(), await running.connect()
        client.send(head + b"1\r\nx\r\n" * 40_000 + b"0\r\n\r\n" + request_bytes("GET", "/ping"))
        assert (await other.ask("GET", "/ping")).status == 200
        assert running.site.seen == []
        assert [(await client.answer()).body for _ in range(2)] == [b"x" * 40_000, b"OK"]

    serve(scenario)


def test_a_handler_sees_the_request(serve):
    async def scenario(running: Running) -> None:
        client = await running.connect()
        await client.ask("POST", "/echo?topic=a%20b&topic=c", b"body", {"X-Thing": "1"})
        (request,) = running.site.seen
        assert (request.method, request.path, request.body) == ("POST", "/echo", b"body")
        assert request.params.get("topic") == "a b"
        assert (request.headers["x-thing"], request.query) == ("1", "topic=a%20b&topic=c")
        assert (request.remote_ip, request.is_loopback) == ("127.0.0.1", True)
        assert request.remote_address.startswith("127.0.0.1:")
        assert (request.is_tls, request.common_name) == (False, "")

    serve(scenario)


def test_a_unix_socket_counts_as_local(serve, tmp_path):
    async def scenario(running: Running) -> None:
        client = await running.connect()
        await client.ask("POST", "/echo", b"x")
        (request,) = running.site.seen
        assert (request.remote_ip, request.remote_address, request.is_loopback) == ("", "@", True)

    serve(scenario, address=str(tmp_path / "http.sock"))


@pytest.mark.parametrize(
    ("method", "target", "status", "body"),
    [
        ("GET", "/topic?topic=a;b=1", 400, message("INVALID_REQUEST")),
        ("GET", "/topic?topic=%zz", 400, message("INVALID_REQUEST")),
        ("GET", "/topic?topic=x#ephemeral", 200, b"x#ephemeral"),
        ("GET", "/echo", 405, message("METHOD_NOT_ALLOWED")),
        ("FOO", "/echo", 405, message("METHOD_NOT_ALLOWED")),
        ("HEAD", "/ping", 405, b""),
        ("OPTIONS", "/echo", 200, b""),
        ("POST", "/put?topic=a", 404, message("NOT_FOUND")),
        ("POST", "/Echo?topic=a", 307, b""),
        ("GET", "/Ping", 301, b""),
        ("GET", "/config/log_level", 200, b"log_level"),
        ("GET", "/empty", 200, b""),
        ("GET", "/refuse", 404, message("TOPIC_NOT_FOUND")),
        ("GET", "/refuse/later", 404, message("TOPIC_NOT_FOUND")),
        ("GET", "/crash", 500, message("INTERNAL_ERROR")),
        ("GET", "/crash/later", 500, message("INTERNAL_ERROR")),
    ],
)
def test_every_answer_leaves_the_connection_usable(serve, method, target, status, body):
    async def scenario(running: Running) -> None:
        client = await running.connect()
        answer = await client.ask(method, target)
        assert (answer.status, answer.body) == (status, body)
        if body.startswith(b"{"):
            assert answer.headers["content-type"] == JSON
        assert (await client.ask("GET", "/ping")).body == b"OK"

    serve(scenario)


def test_a_crash_is_logged_with_its_traceback_and_not_sent(serve, caplog):
    async def scenario(running: Running) -> None:
        client = await running.connect()
        for target in ("/crash", "/crash/later"):
            assert b"secret" not in (await client.ask("GET", target)).body

    serve(scenario)
    assert caplog.text.count("ZeroDivisionError: secret detail") == 2


def test_an_answer_that_cannot_be_encoded_is_an_internal_error(serve, caplog):
    async def scenario(running: Running) -> None:
        client = await running.connect()
        answer = await client.ask("GET", "/header")
        assert (answer.status, answer.body) == (500, message("INTERNAL_ERROR"))
        assert await client.rest() == b""

    serve(scenario)
    assert "cannot be sent" in caplog.text


def test_http_1_0_is_answered_and_closed(serve):
    async def scenario(running: Running) -> None:
        client = await running.connect()
        client.send(b"GET /ping HTTP/1.0\r\n\r\n")
        answer = await client.answer()
        assert (answer.version, answer.body, answer.headers["connection"]) == ("HTTP/1.0", b"OK", "close")
        assert await client.rest() == b""

    serve(scenario)


def test_a_client_that_asks_for_it_is_closed_after_the_answer(serve):
    async def scenario(running: Running) -> None:
        client = await running.connect()
        client.send(request_bytes("GET", "/ping", headers={"Connection": "close"}) + b"more of it")
        assert (await client.answer()).headers["connection"] == "close"
        assert await client.rest() == b""
        await client.close()
        await wait_until(lambda: not running.server.connections)

    serve(scenario)


def test_a_client_that_closes_its_side_still_gets_its_answers(serve):
    async def scenario(running: Running) -> None:
        client = await running.connect()
        client.send(request_bytes("POST", "/later") + request_bytes("GET", "/ping"))
        client.writer.write_eof()
        await wait_until(lambda: len(running.site.laters) == 1)
        running.site.laters[0].resolve(OK)
        assert (await client.rest()).count(b"HTTP/1.1 200 OK") == 2
        await wait_until(lambda: not running.server.connections)

    serve(scenario)


def test_a_client_that_leaves_amid_a_request_is_forgotten(serve):
    async def scenario(running: Running) -> None:
        client = await running.connect()
        client.send(request_bytes("POST", "/echo", b"12345")[:-2])
        client.writer.write_eof()
        assert await client.rest() == b""
        await wait_until(lambda: not running.server.connections)
        assert running.site.seen == []

    serve(scenario)


def test_chunked_requests_are_joined(serve):
    async def scenario(running: Running) -> None:
        client = await running.connect()
        client.send(b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
        client.send(b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n" + request_bytes("GET", "/ping"))
        assert [(await client.answer()).body for _ in range(2)] == [b"abcde", b"OK"]

    serve(scenario)


def test_a_large_body_arrives_whole(serve):
    async def scenario(running: Running) -> None:
        client = await running.connect()
        body = bytes(range(256)) * 15_000
        assert (await client.ask("POST", "/big", body)).body == body

    serve(scenario)


def test_a_client_that_waits_for_leave_gets_it(serve):
    async def scenario(running: Running) -> None:
        client = await running.connect()
        head = b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"
        for _ in range(2):
            client.send(head)
            assert (await client.answer()).status == 100
            client.send(b"hi")
            assert (await client.answer()).body == b"hi"
        client.send(head + b"hi")
        assert (await client.answer()).status == 200
        client.send(request_bytes("POST", "/echo", b"x") + head)
        assert [(await client.answer()).status for _ in range(2)] == [200, 100]

    serve(scenario)


def test_leave_is_given_behind_a_body_that_came_in_pieces(serve):
    head = b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"

    async def scenario(running: Running) -> None:
        client = await half_sent(running, request_bytes("POST", "/echo", b"ab")[:-1])
        client.send(b"b" + head)
        assert [(await client.answer()).status for _ in range(2)] == [200, 100]

    serve(scenario)


@pytest.mark.parametrize(
    ("start", "status", "code"),
    [
        (b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n", 413, "MSG_TOO_BIG"),
        (b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\nExpect: 100-continue\r\n\r\n",
         413, "MSG_TOO_BIG"),
        (b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3E9\r\n", 413, "MSG_TOO_BIG"),
        (b"GET /ping HTTP/1.1\r\nHost: a\r\nContent-Length: 65537\r\n\r\n", 413, "BODY_TOO_BIG"),
        (b"POST /nope HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n", 404, "NOT_FOUND"),
    ],
)  # fmt: skip
def test_a_body_too_big_is_refused_before_it_is_sent(serve, start, status, code):
    async def scenario(running: Running) -> None:
        client = await running.connect()
        client.send(start)
        answer = await client.answer()
        assert (answer.status, answer.body) == (status, message(code))
        assert answer.headers["connection"] == "close"
        assert await client.rest() == b""

    serve(scenario)


def test_a_refused_client_that_sends_on_can_read_why(serve):
    async def scenario(running: Running) -> None:
        client = await running.connect()
        client.send(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3000000\r\n\r\n")
        for _ in range(30):
            client.send(b"x" * 100_000)
            await client.writer.drain()
        assert (await client.answer()).body == message("MSG_TOO_BIG")
        (connection,) = running.server.connections
        assert connection._reader.pending_bytes < 300_000

    serve(scenario)


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET /ping HTTP/1.1\nHost: a\n\n", 400),
        (b"GET /ping HTTP/1.1\r\nHost: a\r\nA: b\r\n c\r\n\r\n", 400),
        (b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"GET /ping HTTP/1.1\r\n\r\n", 400),
        (b"GET /" + b"a" * 9_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 414),
        (b"GET /ping HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 20_000 + b"\r\n\r\n", 431),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        (b"\x16\x03\x01\x02\x00\x01\r\n\r\n", 400),
    ],
)
def test_malformed_requests_are_answered_and_closed(serve, data, status):
    async def scenario(running: Running) -> None:
        client = await running.connect()
        client.send(data)
        answer = await client.answer()
        assert (answer.status, answer.headers["connection"]) == (status, "close")
        assert await client.rest() == b""
        await client.close()
        await wait_until(lambda: not running.server.connections)

    serve(scenario)


def test_a_refusal_reflects_nothing_of_the_request(serve, caplog):
    caplog.set_level(logging.DEBUG)

    async def scenario(running: Running) -> None:
        for target in ("/<script>", "/topic?topic=<script>;", "/%3Cscript%3E\x80"):
            client = await running.connect()
            answer = await client.ask("GET", target)
            assert b"script" not in answer.head + answer.body

    serve(scenario)
    assert "?" not in caplog.text


def test_the_gate_comes_before_every_handler_and_every_refusal(serve):
    closed = json_response({"message": "TLS_REQUIRED"}, 403)

    async def scenario(running: Running) -> None:
        for method, target, body in [
            ("GET", "/ping", b""),
            ("GET", "/nope", b""),
            ("POST", "/echo", b"x"),
            ("POST", "/echo", b"x" * 2_000),
        ]:
            client = await running.connect()
            answer = await client.ask(method, target, body)
            assert (answer.status, answer.body) == (403, message("TLS_REQUIRED"))
        assert running.site.seen == []

    serve(scenario, gate=lambda _: closed)


def test_a_gate_that_lets_pass_is_not_noticed(serve):
    async def scenario(running: Running) -> None:
        assert (await (await running.connect()).ask("GET", "/ping")).body == b"OK"

    serve(scenario, gate=lambda _: None)


@pytest.mark.parametrize("size", [0, 2_000])
def test_a_gate_that_crashes_refuses(serve, caplog, size):
    def gate(_: object) -> Response | None:
        raise ZeroDivisionError

    async def scenario(running: Running) -> None:
        client = await running.connect()
        assert (await client.ask("POST", "/echo", b"x" * size)).status == 500

    serve(scenario, gate=gate)
    assert "ZeroDivisionError" in caplog.text


# Time: moved by sweeps ----------------------------------------------------------------------------------


async def half_sent(running: Running, data: bytes) -> HttpClient:
    client = await running.connect()
    client.send(data)
    await wait_until(lambda: bool(running.server.connections))
    (connection,) = running.server.connections
    await wait_until(lambda: not data or not connection._reader.is_empty)
    return client


@pytest.mark.parametrize(
    ("data", "limit_s", "status"),
    [
        (b"", 60, b""),
        (b"GET /ping HT", 10, b"HTTP/1.1 408"),
        (request_bytes("POST", "/echo", b"12345")[:-1], 30, b"HTTP/1.1 408"),
    ],
)
def test_every_wait_for_a_client_ends(serve, data, limit_s, status):
    async def scenario(running: Running) -> None:
        client = await half_sent(running, data)
        running.server.sweep(limit_s - 1)
        assert len(running.server.connections) == 1
        running.server.sweep(2)
        assert (await client.rest())[: len(status) or None] == status
        await client.close()
        await wait_until(lambda: not running.server.connections)

    serve(scenario)


@pytest.mark.parametrize("start", [b"GET /ping HT", request_bytes("POST", "/echo", b"x" * 900)[:-800]])
def test_a_trickle_of_bytes_does_not_move_a_deadline(serve, start):
    async def scenario(running: Running) -> None:
        client = await half_sent(running, start)
        (connection,) = running.server.connections
        for _ in range(7):
            running.server.sweep(5)
            before = connection._reader.pending_bytes
            if not connection._holds:
                client.send(b"x")
                await wait_until(lambda before=before: connection._reader.pending_bytes > before)
        assert b" 408 " in await client.rest()

    serve(scenario)


def test_requests_move_the_deadline_of_an_idle_connection(serve):
    async def scenario(running: Running) -> None:
        client = await running.connect()
        for _ in range(4):
            assert (await client.ask("GET", "/ping")).status == 200
            running.server.sweep(50)
        assert (await client.ask("GET", "/ping")).status == 200

    serve(scenario)


def test_a_refused_client_is_cut_off_when_it_lingers(serve):
    async def scenario(running: Running) -> None:
        client = await running.connect()
        client.send(b"\n")
        assert (await client.answer()).status == 400
        assert len(running.server.connections) == 1
        running.server.sweep(2)
        await wait_until(lambda: not running.server.connections)

    serve(scenario)


@pytest.mark.parametrize("target", ["/later", "/await"])
def test_a_handler_over_its_deadline_is_answered_for(serve, target):
    async def scenario(running: Running) -> None:
        client = await running.connect()
        client.send(request_bytes("POST" if target == "/later" else "GET", target))
        await wait_until(lambda: any(each._asked for each in running.server.connections))
        running.server.sweep(2)
        running.server.sweep(2)
        answer = await client.answer()
        assert (answer.status, answer.body) == (503, message("TIMEOUT"))
        for later in running.site.laters:
            later.resolve(text_response("too late"))
        running.site.released.set()
        assert (await client.ask("GET", "/ping")).body == b"OK"

    serve(scenario)


def test_an_answer_that_comes_too_late_is_not_given_to_the_next_request(serve):
    async def scenario(running: Running) -> None:
        client = await running.connect()
        for count in (1, 2):
            client.send(request_bytes("POST", "/later"))
            await wait_until(lambda count=count: len(running.site.laters) == count)
            if count == 1:
                running.server.sweep(4)
                assert (await client.answer()).status == 503
        done: list[str] = []
        late = FileResponse([(-1, 0, 9)], "a/b", on_done=lambda: done.append("late"))

        running.site.laters[0].resolve(late)
        running.site.laters[1].resolve(OK)

        assert (await client.answer()).body == b"OK"
        assert done == ["late"]

    serve(scenario)


def test_an_answer_for_a_client_that_left_goes_nowhere(serve):
    async def scenario(running: Running) -> None:
        client = await running.connect()
        client.send(request_bytes("POST", "/later"))
        await wait_until(lambda: bool(running.site.laters))
        reset_on_close = struct.pack("ii", 1, 0)
        client.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset_on_close)
        client.writer.transport.abort()
        await wait_until(lambda: not running.server.connections)
        running.site.laters[0].resolve(OK)

    serve(scenario)


def test_an_answer_that_is_there_at_once_needs_no_wait(serve):
    def handler(_: object) -> Later:
        later = Later()
        later.resolve(OK)
        return later

    async def scenario(running: Running) -> None:
        client = await running.connect()
        client.send(request_bytes("GET", "/now") * 3)
        assert [(await client.answer()).body for _ in range(3)] == [b"OK"] * 3

    serve(scenario, routes=[Route("GET", "/now", handler)])


# Clients that do not read -------------------------------------------------------------------------------


def test_a_client_that_does_not_read_is_not_read_from_and_then_dropped(serve):
    async def scenario(running: Running) -> None:
        client = await running.connect()
        client.writer.transport.pause_reading()
        client.send(request_bytes("GET", "/large") * 5)
        await wait_until(lambda: bool(running.server.connections))
        (connection,) = running.server.connections
        await wait_until(lambda: not connection._is_reading)
        assert connection._transport.get_write_buffer_size() < 9_000_000
        running.server.sweep(29)
        assert len(running.server.connections) == 1
        for _ in range(3):
            running.server.sweep(29)
        await wait_until(lambda: not running.server.connections)

    serve(scenario)


def test_a_client_that_has_answers_to_read_is_not_idle(serve):
    async def scenario(running: Running) -> None:
        client = await running.connect()
        client.writer.transport.pause_reading()
        client.send(request_bytes("GET", "/large"))
        await wait_until(lambda: any(not each._is_reading for each in running.server.connections))
        for _ in range(2):
            running.server.sweep(10)
        client.writer.transport.resume_reading()
        assert len((await client.answer()).body) == 8_000_000
        assert (await client.ask("GET", "/ping")).body == b"OK"

    serve(scenario, limits=HttpLimits(idle_s=5.0))


def test_a_client_that_reads_slowly_gets_all(serve):
    async def scenario(running: Running) -> None:
        client = await running.connect()
        client.send(request_bytes("GET", "/large") * 2 + request_bytes("GET", "/ping"))
        for _ in range(2):
            assert len((await client.answer()).body) == 8_000_000
        assert (await client.answer()).body == b"OK"

    serve(scenario)


def test_input_behind_an_unanswered_request_is_bounded(serve):
    async def scenario(running: Running) -> None:
        client = await running.connect()
        client.send(request_bytes("POST", "/later") + request_bytes("POST", "/big", b"x" * 3_000_000))
        await wait_until(lambda: bool(running.site.laters))
        (connection,) = running.server.connections
        await wait_until(lambda: not connection._is_reading)
        assert connection._reader.pending_bytes < 1_000_000
        running.site.laters[0].resolve(OK)
        assert (await client.answer()).body == b"OK"
        assert len((await client.answer()).body) == 3_000_000

    serve(scenario)


def test_too_much_unfinished_input_of_all_clients_costs_the_last_one_its_connection(serve, caplog):
    budget = InputBudget(200_000)

    async def scenario(running: Running) -> None:
        clients = [await running.connect() for _ in range(3)]
        for client in clients:
            client.send(request_bytes("POST", "/big", b"x" * 100_000)[:-1])
        await wait_until(lambda: len(running.server.connections) == 2)
        assert budget.total < 250_000

    serve(scenario, budget=budget)
    assert "too much unfinished input" in caplog.text
    assert budget.total == 0


def test_limits_can_be_chosen(serve):
    async def scenario(running: Running) -> None:
        client = await half_sent(running, b"GET")
        running.server.sweep(1.5)
        assert b" 408 " in await client.rest()

    serve(scenario, limits=HttpLimits(header_s=1.0))


# Closing ------------------------------------------------------------------------------------------------


def test_closing_ends_idle_connections_and_lets_the_others_be_answered(serve):
    async def scenario(running: Running) -> None:
        idle, busy = await running.connect(), await running.connect()
        assert (await idle.ask("GET", "/ping")).status == 200
        busy.send(request_bytes("POST", "/later"))
        await wait_until(lambda: bool(running.site.laters))

        closing = asyncio.ensure_future(running.server.close(5.0))
        assert await idle.rest() == b""
        running.site.laters[0].resolve(OK)

        assert (await busy.answer()).headers["connection"] == "close"
        await busy.close()
        await closing
        assert not running.server.connections

    serve(scenario)


def test_closing_does_not_wait_for_ever(serve):
    async def scenario(running: Running) -> None:
        client = await running.connect()
        client.send(request_bytes("GET", "/await"))
        await wait_until(lambda: any(each._asked for each in running.server.connections))
        await running.server.close(0.01)
        assert await client.rest() == b""
        await wait_until(lambda: not running.server.connections)

    serve(scenario)
