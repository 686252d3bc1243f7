import contextlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsqlake.wire import commands
from nsqlake.wire.commands import COMMANDS, ClientState
from nsqlake.wire.errors import ClientError

ID = b"0123456789abcdef"
MAX_MS = 3_600_000

PARAMS = st.lists(st.binary(max_size=24) | st.sampled_from([b"t", b"5", b"", ID, b"t!"]), max_size=4)


def refusal(call: Callable[..., object], *args: object) -> bytes:
    with pytest.raises(ClientError) as caught:
        call(*args)
    assert caught.value.fatal
    return caught.value.payload


# The table


def test_table_names_every_command_of_the_protocol() -> None:
    assert list(COMMANDS) == [
        "IDENTIFY", "AUTH", "SUB", "PUB", "MPUB", "DPUB", "RDY", "FIN", "REQ", "TOUCH", "CLS", "NOP",
    ]  # fmt: skip
    assert all(COMMANDS[name].name == name for name in COMMANDS)


@pytest.mark.parametrize(
    ("state", "legal"),
    [
        (ClientState.INIT, {"IDENTIFY", "AUTH", "SUB", "PUB", "MPUB", "DPUB", "NOP"}),
        (ClientState.SUBSCRIBED, {"RDY", "FIN", "REQ", "TOUCH", "CLS", "PUB", "MPUB", "DPUB", "NOP"}),
        (ClientState.CLOSING, {"FIN", "REQ", "TOUCH", "PUB", "MPUB", "DPUB", "NOP"}),
    ],
)
def test_table_says_which_commands_are_legal_in_a_state(state: ClientState, legal: set[str]) -> None:
    assert {name for name, command in COMMANDS.items() if state in command.legal} == legal


def test_only_rdy_is_ignored_and_only_while_closing() -> None:
    ignored = {name: command.ignored for name, command in COMMANDS.items() if command.ignored}

    assert ignored == {"RDY": {ClientState.CLOSING}}


def test_table_says_which_commands_carry_a_body_and_which_are_answered() -> None:
    assert {name for name, command in COMMANDS.items() if command.body} == {
        "IDENTIFY", "AUTH", "PUB", "MPUB", "DPUB",
    }  # fmt: skip
    assert {name for name, command in COMMANDS.items() if not command.answer} == {
        "RDY", "FIN", "REQ", "TOUCH", "NOP",
    }  # fmt: skip


def test_state_numbers_are_those_of_stats() -> None:
    assert [state.value for state in ClientState] == [0, 3, 4]


# Refusals that need no parameters


@pytest.mark.parametrize(
    ("name", "payload"),
    [
        (b"FOO", b"E_INVALID invalid command FOO"),
        (b"", b"E_INVALID invalid command "),
        (b"nop", b"E_INVALID invalid command nop"),
        (b"\xff\x00", b"E_INVALID invalid command \\xff\\x00"),
        (b"A" * 16_383, b"E_INVALID invalid command " + b"A" * 64),
    ],
)
def test_unknown_command_is_named(name: bytes, payload: bytes) -> None:
    assert commands.invalid_command(name).payload == payload


def test_wrong_state_names_the_command() -> None:
    assert commands.wrong_state(b"SUB").payload == b"E_INVALID cannot SUB in current state"
    assert (
        commands.wrong_state(b"NOP", tls_required=True).payload
        == b"E_INVALID cannot NOP in current state (TLS required)"
    )


# Numbers


@pytest.mark.parametrize(
    ("digits", "number"),
    [
        (b"", 0),
        (b"0", 0),
        (b"007", 7),
        (b"9223372036854775807", 2**63 - 1),
        (b"9223372036854775808", -(2**63)),
        (b"18446744073709551615", -1),
        (b"18446744073709551616", 0),
        (b"18446744073709551617", 1),
        (b"0" * 16_000 + b"12", 12),
        (b"1" + b"0" * 16_000, 0),
    ],
)
def test_numbers_wrap_at_64_bits(digits: bytes, number: int) -> None:
    assert commands.parse_base10(digits) == number


@pytest.mark.parametrize(
    "digits",
    [
        b"-1",
        b"+1",
        b" 1",
        b"1 ",
        b"1.0",
        b"1e3",
        b"1_0",
        b"0x1",
        b"abc",
        b"\xff",
        b"\xb2",
        "١".encode(),
        b"1\x00",
    ],
)
def test_only_ascii_digits_are_a_number(digits: bytes) -> None:
    assert commands.parse_base10(digits) is None


@given(st.text("0123456789", min_size=1, max_size=300))
def test_any_digits_are_their_value_modulo_64_bits(digits: str) -> None:
    number = commands.parse_base10(digits.encode())

    assert number is not None
    assert -(2**63) <= number < 2**63
    assert number % 2**64 == int(digits) % 2**64


# Parsers


def test_sub_yields_topic_and_channel_and_ignores_the_rest() -> None:
    assert commands.parse_sub([b"t", b"c", b"extra"]) == ("t", "c")
    assert commands.parse_sub([b"t#ephemeral", b"c#ephemeral"]) == ("t#ephemeral", "c#ephemeral")


@pytest.mark.parametrize(
    ("params", "payload"),
    [
        ([], b"E_INVALID SUB insufficient number of parameters"),
        ([b"t!"], b"E_INVALID SUB insufficient number of parameters"),
        ([b"t!", b"c!"], b'E_BAD_TOPIC SUB topic name "t!" is not valid'),
        ([b't"x', b"c"], b'E_BAD_TOPIC SUB topic name "t\\"x" is not valid'),
        ([b"t\xff", b"c"], b'E_BAD_TOPIC SUB topic name "t\\xff" is not valid'),
        ([b"#ephemeral", b"c"], b'E_BAD_TOPIC SUB topic name "#ephemeral" is not valid'),
        ([b"t", b"", b"c"], b'E_BAD_CHANNEL SUB channel name "" is not valid'),
    ],
)
def test_sub_is_refused_in_the_order_of_the_protocol(params: list[bytes], payload: bytes) -> None:
    assert refusal(commands.parse_sub, params) == payload


def test_pub_yields_its_topic() -> None:
    assert commands.parse_pub_topic([b"t", b"extra"]) == commands.parse_mpub_topic([b"t"]) == "t"


@pytest.mark.parametrize(
    ("parse", "params", "payload"),
    [
        (commands.parse_pub_topic, [], b"E_INVALID PUB insufficient number of parameters"),
        (commands.parse_pub_topic, [b"t!"], b'E_BAD_TOPIC PUB topic name "t!" is not valid'),
        (commands.parse_pub_topic, [b""], b'E_BAD_TOPIC PUB topic name "" is not valid'),
        (commands.parse_mpub_topic, [], b"E_INVALID MPUB insufficient number of parameters"),
        (commands.parse_mpub_topic, [b"t!"], b'E_BAD_TOPIC E_BAD_TOPIC MPUB topic name "t!" is not valid'),
        (commands.parse_auth, [b""], b"E_INVALID AUTH invalid number of parameters"),
        (commands.parse_auth, [b"x"], b"E_INVALID AUTH invalid number of parameters"),
    ],
)
def test_line_of_a_command_with_a_body_is_refused(
    parse: Callable[[list[bytes]], object], params: list[bytes], payload: bytes
) -> None:
    assert refusal(parse, params) == payload


def test_auth_takes_no_parameters() -> None:
    commands.parse_auth([])


@pytest.mark.parametrize(("delay", "delay_ms"), [(b"0", 0), (b"", 0), (b"250", 250), (b"3600000", MAX_MS)])
def test_dpub_yields_topic_and_delay(delay: bytes, delay_ms: int) -> None:
    assert commands.parse_dpub([b"t", delay], MAX_MS) == ("t", delay_ms)


@pytest.mark.parametrize(
    ("params", "payload"),
    [
        ([b"t!"], b"E_INVALID DPUB insufficient number of parameters"),
        ([b"t!", b"x"], b'E_BAD_TOPIC DPUB topic name "t!" is not valid'),
        ([b"t", b"x\n"], b"E_INVALID DPUB could not parse timeout x\\x0a"),
        ([b"t", b"-1"], b"E_INVALID DPUB could not parse timeout -1"),
        ([b"t", b"3600001"], b"E_INVALID DPUB timeout 3600001 out of range 0-3600000"),
        ([b"t", b"18446744073709551615"], b"E_INVALID DPUB timeout -1 out of range 0-3600000"),
    ],
)
def test_dpub_is_refused_in_the_order_of_the_protocol(params: list[bytes], payload: bytes) -> None:
    assert refusal(commands.parse_dpub, params, MAX_MS) == payload


@pytest.mark.parametrize(
    ("params", "count"),
    [([], 1), ([b""], 0), ([b"2500"], 2500), ([b"18446744073709551617"], 1), ([b"7", b"extra"], 7)],
)
def test_rdy_yields_its_count(params: list[bytes], count: int) -> None:
    assert commands.parse_rdy(params, 2500) == count


@pytest.mark.parametrize(
    ("count", "payload"),
    [
        (b"2501", b"E_INVALID RDY count 2501 out of range 0-2500"),
        (b"-1", b"E_INVALID RDY could not parse count -1"),
        (b"abc", b"E_INVALID RDY could not parse count abc"),
        (b"9223372036854775808", b"E_INVALID RDY count -9223372036854775808 out of range 0-2500"),
        (b"x" * 16_000, b"E_INVALID RDY could not parse count " + b"x" * 64),
    ],
)
def test_rdy_is_refused(count: bytes, payload: bytes) -> None:
    assert refusal(commands.parse_rdy, [count], 2500) == payload


def test_message_id_is_any_16_bytes() -> None:
    assert commands.parse_message_id("FIN", [ID]) == ID
    assert commands.parse_message_id("TOUCH", [b"\xff" * 16, b"extra"]) == b"\xff" * 16


@pytest.mark.parametrize(
    ("name", "params", "payload"),
    [
        ("FIN", [], b"E_INVALID FIN insufficient number of params"),
        ("TOUCH", [], b"E_INVALID TOUCH insufficient number of params"),
        ("FIN", [b"abc"], b"E_INVALID invalid message ID"),
        ("FIN", [b""], b"E_INVALID invalid message ID"),
        ("TOUCH", [ID + b"0"], b"E_INVALID invalid message ID"),
    ],
)
def test_message_id_is_refused(name: str, params: list[bytes], payload: bytes) -> None:
    assert refusal(commands.parse_message_id, name, params) == payload


@pytest.mark.parametrize(
    ("delay", "delay_ms"),
    [(b"0", 0), (b"", 0), (b"1500", 1500), (b"99999999", MAX_MS), (b"9223372036854775808", 0)],
)
def test_req_brings_its_delay_into_range(delay: bytes, delay_ms: int) -> None:
    assert commands.parse_req([ID, delay], MAX_MS) == (ID, delay_ms)


@pytest.mark.parametrize(
    ("params", "payload"),
    [
        ([], b"E_INVALID REQ insufficient number of params"),
        ([b"abc"], b"E_INVALID REQ insufficient number of params"),
        ([b"abc", b"x"], b"E_INVALID invalid message ID"),
        ([ID, b"-1"], b"E_INVALID REQ could not parse timeout -1"),
    ],
)
def test_req_is_refused_in_the_order_of_the_protocol(params: list[bytes], payload: bytes) -> None:
    assert refusal(commands.parse_req, params, MAX_MS) == payload


@given(PARAMS)
def test_any_parameters_yield_values_or_a_client_error(params: list[bytes]) -> None:
    for parse in (
        commands.parse_auth,
        commands.parse_sub,
        commands.parse_pub_topic,
        commands.parse_mpub_topic,
        lambda params: commands.parse_dpub(params, MAX_MS),
        lambda params: commands.parse_rdy(params, 2500),
        lambda params: commands.parse_message_id("FIN", params),
        lambda params: commands.parse_req(params, MAX_MS),
    ):
        with contextlib.suppress(ClientError):
            parse(params)


# Encoders


@pytest.mark.parametrize(
    ("encoded", "expected"),
    [
        (commands.identify({"client_id": "é"}), b'IDENTIFY\n\0\0\0\x12{"client_id":"\xc3\xa9"}'),
        (commands.auth(b"s3cret"), b"AUTH\n\0\0\0\6s3cret"),
        (commands.sub("t", "c#ephemeral"), b"SUB t c#ephemeral\n"),
        (commands.pub("t", b"body"), b"PUB t\n\0\0\0\4body"),
        (commands.mpub("t", [b"a", b"bc"]), b"MPUB t\n\0\0\0\x0f\0\0\0\2\0\0\0\1a\0\0\0\2bc"),
        (commands.dpub("t", 1500, b"body"), b"DPUB t 1500\n\0\0\0\4body"),
        (commands.rdy(0), b"RDY 0\n"),
        (commands.fin(ID), b"FIN 0123456789abcdef\n"),
        (commands.req(ID, 90_000), b"REQ 0123456789abcdef 90000\n"),
        (commands.touch(ID), b"TOUCH 0123456789abcdef\n"),
        (commands.cls(), b"CLS\n"),
        (commands.nop(), b"NOP\n"),
        (commands.MAGIC_V2, b"  V2"),
    ],
)  # fmt: skip
def test_encoders_write_exactly_this(encoded: bytes, expected: bytes) -> None:
    assert encoded == expected


@pytest.mark.parametrize(
    ("encode", "payload"),
    [
        (lambda: commands.pub("bad topic", b"x"), b'E_BAD_TOPIC PUB topic name "bad topic" is not valid'),
        (lambda: commands.pub("\udc80", b"x"), b'E_BAD_TOPIC PUB topic name "\\xed\\xb2\\x80" is not valid'),
        (lambda: commands.sub("t", "c\n"), b'E_BAD_CHANNEL SUB channel name "c\\n" is not valid'),
        (lambda: commands.pub("t", b""), b"E_BAD_MESSAGE PUB invalid message body size 0"),
        (lambda: commands.dpub("t", 0, b""), b"E_BAD_MESSAGE DPUB invalid message body size 0"),
        (lambda: commands.mpub("t", []), b"E_BAD_BODY MPUB invalid message count 0"),
        (lambda: commands.mpub("t", [b"a", b""]), b"E_BAD_MESSAGE MPUB invalid message(1) body size 0"),
        (lambda: commands.auth(b""), b"E_BAD_BODY AUTH invalid body size 0"),
        (lambda: commands.rdy(-1), b"E_INVALID RDY could not parse count -1"),
        (lambda: commands.rdy(2**64 + 1), b"E_INVALID RDY could not parse count 18446744073709551617"),
        (lambda: commands.req(ID, -1), b"E_INVALID REQ could not parse timeout -1"),
        (lambda: commands.dpub("t", -1, b"x"), b"E_INVALID DPUB could not parse timeout -1"),
        (lambda: commands.fin(b"short"), b"E_INVALID invalid message ID"),
        (lambda: commands.fin(b"0123456\nNOP\n0123"), b"E_INVALID invalid message ID"),
        (lambda: commands.touch(b"01234567 9abcdef"), b"E_INVALID invalid message ID"),
    ],
)
def test_encoders_refuse_what_would_put_the_stream_out_of_step(
    encode: Callable[[], bytes], payload: bytes
) -> None:
    assert refusal(encode) == payload


@given(st.integers(0, MAX_MS), st.binary(min_size=1, max_size=50))
def test_encoded_line_is_parsed_back(delay_ms: int, body: bytes) -> None:
    line, _, rest = commands.dpub("t.1", delay_ms, body).partition(b"\n")

    name, *params = line.split(b" ")

    assert name == b"DPUB"
    assert commands.parse_dpub(params, MAX_MS) == ("t.1", delay_ms)
    assert rest == len(body).to_bytes(4, "big") + body
