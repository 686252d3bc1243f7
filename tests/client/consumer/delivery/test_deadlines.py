"""Message timeouts: touching in time, expiring in time."""

from nsqlake.client.message import Message
from tests.client.consumer.stage import Stage, run, settle, staged
from tests.fakes.loop_turns import wait_until

TIMES = {"msg_timeout": 60_000, "max_msg_timeout": 150_000}


async def take(stage: Stage) -> Message:
    (await stage.connection()).send_message(b"good")
    return await stage.consumer.get()


def test_message_has_the_deadlines_of_its_server_and_touch_moves_the_soft_one() -> None:
    async def scenario() -> None:
        async with staged(None, identify=TIMES, read_timeout=300) as stage:
            message = await take(stage)
            begin_s = message.received_at_s
            assert (message.deadline_s, message.hard_deadline_s) == (begin_s + 60, begin_s + 150)

            stage.advance(50)
            assert message.touch()
            assert message.deadline_s == begin_s + 110
            stage.advance(50)
            message.touch()
            assert message.deadline_s == begin_s + 150

    run(scenario())


def test_message_that_nobody_answers_is_let_go_after_its_timeout() -> None:
    async def scenario() -> None:
        async with staged(None, identify=TIMES, read_timeout=300) as stage:
            message = await take(stage)

            stage.advance(60)
            assert stage.consumer.stats().in_flight == 1
            stage.advance(1.1)

            assert message.is_expired
            assert stage.consumer.stats().in_flight == 0
            assert stage.consumer.stats().expired == 1
            assert message.finish()

    run(scenario())


def test_answer_after_the_hard_limit_is_not_even_sent() -> None:
    async def scenario() -> None:
        async with staged(None, identify=TIMES, read_timeout=300) as stage:
            message = await take(stage)
            stage.advance(61.1)
            await take(stage)
            stage.advance(89.0)

            assert not message.finish()

    run(scenario())


def test_message_that_waited_too_long_is_not_started() -> None:
    async def scenario() -> None:
        async with staged(None, identify=TIMES, read_timeout=300) as stage:
            connection = await stage.connection()
            connection.send_message(b"old")
            await wait_until(lambda: stage.consumer.stats().queued == 1)
            stage.advance(60)
            connection.send_message(b"new")

            assert (await stage.consumer.get()).body == b"new"
            stats = stage.consumer.stats()
            assert (stats.expired, stats.in_flight) == (1, 1)
            assert connection.count("FIN") == connection.count("REQ") == 0

    run(scenario())


def test_keepalive_touches_at_half_of_the_timeout_until_the_hard_limit() -> None:
    async def scenario() -> None:
        async with staged(None, identify=TIMES, read_timeout=300) as stage:
            message = await take(stage)
            connection = await stage.connection()
            touches = []
            async with message.keepalive():
                for _ in range(15):
                    stage.advance(10)
                    await settle()
                    touches.append(connection.count("TOUCH"))

            assert touches == [0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3]

    run(scenario())


def test_keepalive_ends_with_its_block_and_with_the_answer() -> None:
    async def scenario() -> None:
        async with staged(None, identify=TIMES, read_timeout=300) as stage:
            one, two = await take(stage), await take(stage)
            connection = await stage.connection()
            async with one.keepalive(), two.keepalive():
                two.finish()
            async with two.keepalive():
                stage.advance(55)
                await settle()

            assert connection.count("TOUCH") == 0

    run(scenario())


def test_keepalive_stops_when_nsqd_refuses_the_touch() -> None:
    async def scenario() -> None:
        async with staged(None, identify=TIMES, read_timeout=300) as stage:
            message = await take(stage)
            connection = await stage.connection()
            async with message.keepalive():
                stage.advance(31)
                await connection.wait_command("TOUCH")
                connection.send_error(f"E_TOUCH_FAILED TOUCH {message.id.decode()} failed ID not in flight")
                await wait_until(lambda: message.is_expired)
                stage.advance(100)
                await settle()

            assert connection.count("TOUCH") == 1

    run(scenario())


def test_message_kept_late_is_touched_at_once() -> None:
    async def scenario() -> None:
        async with staged(None, identify=TIMES, read_timeout=300) as stage:
            fresh_later = await take(stage)
            stage.advance(50)
            fresh = await take(stage)
            async with fresh.keepalive(), fresh_later.keepalive():
                stage.advance(1)
                command = await (await stage.connection()).wait_command("TOUCH")

            assert command.params[0] == fresh_later.id.decode()

    run(scenario())


def test_auto_touch_keeps_running_messages_alive() -> None:
    async def scenario() -> None:
        running: list[Message] = []

        async def handler(message: Message) -> None:
            running.append(message)
            message.disable_auto_response()

        async with staged(handler, identify=TIMES, read_timeout=300, auto_touch=True) as stage:
            connection = await stage.connection()
            connection.send_message(b"good")
            await wait_until(lambda: bool(running))
            stage.advance(31)
            await connection.wait_command("TOUCH")
            running[0].finish()
            stage.advance(100)
            await settle()

            assert connection.count("TOUCH") == 1

    run(scenario())
