"""What a consumer sends, command by command."""

from nsqlake.client.message import Message
from tests.client.consumer.stage import by_body, run, settle, staged
from tests.fakes.loop_turns import wait_until
from tests.fakes.scripted_nsqd import message

START = ("IDENTIFY", "SUB")
MULTIPLIER_S = 0.01


def test_backoff_goes_up_and_down_level_by_level() -> None:
    async def scenario() -> None:
        async with staged(backoff_multiplier=MULTIPLIER_S) as stage:
            connection = await stage.connection()
            for body in (b"good", b"good", b"good", b"bad"):
                connection.send_message(body)
            seen = [*START, "RDY 5", "FIN", "FIN", "FIN", "RDY 0", "REQ"]
            await connection.wait_transcript(*seen)

            for body, wait_s, answer in (
                (b"bad", 0.02, ["RDY 0", "REQ"]),
                (b"good", 0.04, ["RDY 0", "FIN"]),
                (b"good", 0.02, ["RDY 5", "FIN"]),
            ):
                stage.advance(wait_s * 0.99)
                await settle()
                assert connection.transcript == seen
                stage.advance(wait_s * 0.02)
                connection.send_message(body)
                seen += ["RDY 1", *answer]
                await connection.wait_transcript(*seen)

    run(scenario())


def test_requeue_without_backoff_repeats_the_pause() -> None:
    async def scenario() -> None:
        async with staged(max_in_flight=1, backoff_multiplier=MULTIPLIER_S) as stage:
            connection = await stage.connection()
            connection.send_message(b"bad")
            await connection.wait_transcript(*START, "RDY 1", "RDY 0", "REQ")
            stage.advance(0.03)
            connection.send_message(b"requeue")
            await connection.wait_transcript(*START, "RDY 1", "RDY 0", "REQ", "RDY 1", "RDY 0", "REQ")
            stage.advance(0.03)
            connection.send_message(b"good")

            await connection.wait_transcript(
                *START, "RDY 1", "RDY 0", "REQ", "RDY 1", "RDY 0", "REQ", "RDY 1", "FIN"
            )
            assert stage.consumer.stats().backoff_level == 0

    run(scenario())


def test_disconnect_in_backoff_keeps_the_level_and_the_test_permit() -> None:
    async def scenario() -> None:
        async with staged(backoff_multiplier=MULTIPLIER_S) as stage:
            first = await stage.connection()
            seen = [*START, "RDY 5"]
            for body, answer in (
                (b"good", ["FIN"]),
                (b"bad", ["RDY 0", "REQ"]),
                (b"bad", ["RDY 1", "RDY 0", "REQ"]),
                (b"good", ["RDY 1", "RDY 0", "FIN"]),
            ):
                first.send_message(body)
                seen += answer
                await first.wait_transcript(*seen)
                stage.advance(0.05)
            await first.wait_transcript(*seen, "RDY 1")

            first.close()
            await wait_until(lambda: stage.consumer.stats().connections == 0)
            stage.advance(1.0)
            second = await stage.connection(number=1)
            second.send_message(b"good")
            second.send_message(b"good")

            await second.wait_transcript(*START, "RDY 1", "RDY 5", "FIN", "FIN")

    run(scenario())


def test_pause_by_max_in_flight_zero_and_back() -> None:
    async def scenario() -> None:
        async with staged() as stage:
            connection = await stage.connection()
            connection.send_message(b"good")
            await connection.wait_transcript(*START, "RDY 5", "FIN")

            stage.consumer.set_max_in_flight(0)
            await connection.wait_transcript(*START, "RDY 5", "FIN", "RDY 0")
            stage.consumer.set_max_in_flight(5)

            await connection.wait_transcript(*START, "RDY 5", "FIN", "RDY 0", "RDY 5")

    run(scenario())


def test_paused_consumer_still_answers_messages_and_heartbeats() -> None:
    async def scenario() -> None:
        async with staged() as stage:
            connection = await stage.connection()
            stage.consumer.pause()
            connection.send_message(b"good")
            connection.send_heartbeat()

            await connection.wait_command("NOP")
            await connection.wait_transcript(*START, "RDY 5", "RDY 0", "FIN")
            stage.consumer.set_max_in_flight(7)
            await settle()
            assert connection.transcript[-1] == "FIN"
            stage.consumer.resume()
            await connection.wait_transcript(*START, "RDY 5", "RDY 0", "FIN", "RDY 7")

    run(scenario())


def test_result_during_a_pause_is_ignored_and_backoff_concerns_all_connections() -> None:
    async def scenario() -> None:
        async with staged(nsqds=2, max_in_flight=4, backoff_multiplier=MULTIPLIER_S) as stage:
            one, two = await stage.connection(0), await stage.connection(1)
            await stage.wait_rdy(2, 2)
            one.send_message(b"good")
            await one.wait_command("FIN")
            one.send_message(b"bad")
            await one.wait_command("REQ")
            one.send_message(b"good")
            await one.wait_command("FIN", 2)

            assert one.transcript[-4:] == ["FIN", "RDY 0", "REQ", "FIN"]
            assert two.transcript[-1] == "RDY 0"
            stage.advance(0.03)
            await wait_until(lambda: "RDY 1" in (one.transcript[-1], two.transcript[-1]))
            assert stage.consumer.stats().rdy == 1
            assert stage.consumer.stats().backoff_level == 1

    run(scenario())


def test_survivor_takes_over_the_share_of_a_lost_connection() -> None:
    async def scenario() -> None:
        async with staged(nsqds=2, max_in_flight=10) as stage:
            await stage.wait_rdy(5, 5)
            stage.nsqds[0].stop_listening()

            (await stage.connection(0)).abort()

            await stage.wait_rdy(5, 10)

    run(scenario())


def test_rdy_is_not_sent_again_per_message() -> None:
    async def scenario() -> None:
        async with staged() as stage:
            connection = await stage.connection()
            for _ in range(50):
                connection.send_message(b"good")
            await connection.wait_command("FIN", 50)

            assert connection.count("RDY") == 1

    run(scenario())


def test_rdy_respects_the_maximum_of_the_server() -> None:
    async def scenario() -> None:
        async with staged(identify={"max_rdy_count": 30}, max_in_flight=100) as stage:
            await stage.wait_rdy(30)

    run(scenario())


def test_permit_is_handed_over_before_the_answer_that_frees_it() -> None:
    async def scenario() -> None:
        async with staged(nsqds=2, max_in_flight=1) as stage:
            connections = [await stage.connection(0), await stage.connection(1)]
            await wait_until(lambda: stage.consumer.stats().rdy == 1)
            await settle()
            holder = next(c for c in connections if c.transcript[-1] == "RDY 1")
            other = next(c for c in connections if c is not holder)

            holder.send_message(b"good")

            await holder.wait_transcript(*START, "RDY 1", "RDY 0", "FIN")
            await other.wait_transcript(*START, "RDY 1")

    run(scenario())


def test_permits_go_round_when_there_are_more_connections_than_permits() -> None:
    async def scenario() -> None:
        async with staged(nsqds=3, max_in_flight=2) as stage:
            await wait_until(lambda: stage.consumer.stats().rdy == 2)
            await settle()
            (waiting,) = [c for n in stage.nsqds for c in n.connections if c.count("RDY") == 0]

            stage.advance(10.0)
            await settle()
            assert waiting.count("RDY") == 0
            stage.advance(5.1)

            await waiting.wait_command("RDY")
            assert stage.consumer.stats().rdy == 2

    run(scenario())


def test_message_answered_twice_is_answered_once() -> None:
    async def handler(message: Message) -> None:
        assert message.finish()
        assert not message.finish()
        assert not message.requeue()
        assert not message.touch()

    async def scenario() -> None:
        async with staged(handler) as stage:
            connection = await stage.connection()
            connection.send_message(b"good")
            connection.send_message(b"good")
            await connection.wait_command("FIN", 2)
            await settle()

            assert connection.transcript == [*START, "RDY 5", "FIN", "FIN"]

    run(scenario())


def test_requeue_delay_grows_with_attempts() -> None:
    async def scenario() -> None:
        async with staged(by_body, max_backoff_duration=0) as stage:
            connection = await stage.connection()
            for attempts in (1, 2, 5):
                connection.send_message(b"bad", attempts=attempts)
            await connection.wait_command("REQ", 3)

            delays = [command.params[1] for command in connection.commands if command.name == "REQ"]
            assert delays == ["90000", "180000", "450000"]

    run(scenario())


def test_flood_of_messages_that_rdy_does_not_allow_ends_the_connection() -> None:
    async def scenario() -> None:
        async with staged(None, max_in_flight=1) as stage:
            connection = await stage.connection()
            connection.send_raw(
                b"".join(message(b"x", message_id=b"%016d" % number) for number in range(1001))
            )

            await connection.wait_ended()
            await wait_until(lambda: stage.consumer.stats().in_flight == 0)
            assert "far more than RDY" in stage.consumer.stats().nodes[0].last_error

    run(scenario())
