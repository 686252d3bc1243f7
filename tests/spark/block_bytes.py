"""Blocks as a log has them on its disk."""

from collections.abc import Sequence

from nsqlake.topiclog.block import encode_block

SALT = 7
STAMP_NS = 1_700_000_000_123_456_789


def block(
    base: int, bodies: Sequence[bytes], *, tag: bytes = b"", mixed: bool = False, stamp_ns: int = STAMP_NS
) -> bytes:
    """Equal sizes are stored without starts unless `mixed` wants them."""
    records = [len(body).to_bytes(4, "big") + body for body in bodies]
    sizes = {len(record) for record in records}
    starts = [0]
    for record in records:
        starts.append(starts[-1] + len(record))
    is_even = len(sizes) == 1 and not mixed
    head, rest = encode_block(
        b"".join(records),
        len(records),
        base=base,
        salt=SALT,
        timestamp_ns=stamp_ns,
        record_size=sizes.pop() if is_even else 0,
        starts=None if is_even else starts,
        tag=tag,
    )
    return head + rest
