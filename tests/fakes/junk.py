"""Input that no sane client sends, made from a seed: random bytes, broken sessions, absurd numbers."""

import random
import struct

from nsqlake.wire import commands

_EDGE_SIZES = (
    0,
    1,
    2,
    3,
    4,
    5,
    255,
    65_536,
    1_048_576,
    1_048_577,
    5_242_880,
    5_242_881,
    2**31 - 1,
    -1,
    -(2**31),
)
_TOPICS = ("junk", "junk#ephemeral", "junk.2")

_LINES = (
    b"NOP\n",
    b"CLS\n",
    b"RDY 5\n",
    b"RDY\n",
    b"FIN 0123456789abcdef\n",
    b"REQ 0123456789abcdef 10\n",
    b"TOUCH 0123456789abcdef\n",
    b"SUB junk c#ephemeral\n",
    b"SUB junk#ephemeral c\n",
    b"IDENTIFY\n",
    b"AUTH\n",
    b"PUB junk\n",
    b"MPUB junk\n",
    b"DPUB junk 10\n",
    b"\n",
    b"\r\n",
)
_JSON = (
    b"{}",
    b"null",
    b"[]",
    b'{"feature_negotiation":true}',
    b'{"feature_negotiation":true,"snappy":true}',
    b'{"feature_negotiation":true,"deflate":true}',
    b'{"heartbeat_interval":1e400}',
    b'{"client_id":"\xff\xfe"}',
    b'{"client_id":"' + b"x" * 5000 + b'"}',
    b"[" * 5000,
    b'{"a":' * 2000,
    b"9" * 5000,
    b'{"msg_timeout":99999999999999999999999}',
)


def junk(seed: int) -> bytes:
    """One client's whole input."""
    chance = random.Random(seed)
    kind = chance.choice((_noise, _noise_behind_magic, _lines, _session, _broken_session, _sizes, _identify))
    return kind(chance)


def _noise(chance: random.Random) -> bytes:
    return chance.randbytes(chance.randrange(1, 2000))


def _noise_behind_magic(chance: random.Random) -> bytes:
    return commands.MAGIC_V2 + _noise(chance)


def _lines(chance: random.Random) -> bytes:
    lines = [chance.choice(_LINES) for _ in range(chance.randrange(1, 12))]
    return commands.MAGIC_V2 + b"".join(
        _mutated(chance, line) if chance.random() < 0.3 else line for line in lines
    )


def _session(chance: random.Random) -> bytes:
    topic = chance.choice(_TOPICS)
    parts = [
        commands.identify({"client_id": "junk", "feature_negotiation": chance.random() < 0.5}),
        commands.pub(topic, chance.randbytes(chance.randrange(1, 300))),
        commands.mpub(
            topic, [chance.randbytes(chance.randrange(1, 50)) for _ in range(chance.randrange(1, 20))]
        ),
        commands.dpub(topic, chance.randrange(100), b"later"),
        commands.sub(topic, "c#ephemeral"),
        commands.rdy(chance.randrange(2501)),
        commands.fin(b"0123456789abcdef") * chance.randrange(1, 30),
        commands.cls(),
        commands.nop(),
    ]
    if chance.random() < 0.5:
        chance.shuffle(parts)
    return commands.MAGIC_V2 + b"".join(parts)


def _broken_session(chance: random.Random) -> bytes:
    data = _session(chance)
    for _ in range(chance.randrange(1, 4)):
        data = _mutated(chance, data)
    return data


def _sizes(chance: random.Random) -> bytes:
    name = chance.choice((b"PUB junk\n", b"MPUB junk\n", b"DPUB junk 1\n", b"IDENTIFY\n", b"AUTH\n"))
    numbers = [struct.pack(">i", chance.choice(_EDGE_SIZES)) for _ in range(chance.randrange(1, 5))]
    return commands.MAGIC_V2 + name + b"".join(numbers) + chance.randbytes(chance.randrange(200))


def _identify(chance: random.Random) -> bytes:
    body = chance.choice(_JSON)
    if chance.random() < 0.5:
        body = _mutated(chance, body)
    sized = b"IDENTIFY\n" + struct.pack(">i", len(body)) + body
    return commands.MAGIC_V2 + sized + chance.choice((b"", b"NOP\n", chance.randbytes(100)))


def _mutated(chance: random.Random, data: bytes) -> bytes:
    """Something small goes wrong: a bit, a byte more or less, a piece lost, doubled or swapped for noise."""
    at = chance.randrange(len(data) + 1)
    end = min(len(data), at + chance.randrange(1, 9))
    middle = data[at:end]
    replaced = chance.choice(
        (
            b"",
            middle * 2,
            chance.randbytes(len(middle)),
            bytes(byte ^ 1 << chance.randrange(8) for byte in middle[:1]) + middle[1:],
            struct.pack(">i", chance.choice(_EDGE_SIZES)),
            b"\n" + middle,
            b" " + middle,
        )
    )
    return data[:at] + replaced + data[end:]
