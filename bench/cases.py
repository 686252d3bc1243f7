"""Every case of the comparison, with its goal against a peer that keeps everything in memory."""

from bench.case import (
    MIXED,
    Better,
    BothLoad,
    Case,
    DeliverLoad,
    LatencyLoad,
    MemoryLoad,
    Metric,
    PublishLoad,
)
from bench.load.publish import Publishing

ON_DISK_SYNCED = ("--mem-queue-size=0", "--sync-every=1")
UNBUFFERED = (("output_buffer_size", -1), ("output_buffer_timeout", -1))
RSS_LIMIT_MB = 150.0
# Below these we are slower than the peer, goal or not.
FLOOR = 1.0
MIXED_FLOOR = 0.9
ONE_AT_A_TIME_FLOOR = 0.8


def rate(goal: float, floor: float = FLOOR) -> tuple[Metric, ...]:
    return (Metric("rate", "msg/s", goal, floor),)


def deliver(messages: int, consumers: int, rdy: int, goal: float) -> Case:
    processes = 2 if consumers >= 100 else 1
    return Case(
        f"deliver-{consumers}x{rdy}",
        f"deliver + FIN, {consumers} consumer{'s' * (consumers > 1)}, RDY {rdy}, equal sizes",
        DeliverLoad(messages, consumers, rdy, processes),
        rate(goal, ONE_AT_A_TIME_FLOOR if rdy == 1 else FLOOR),
    )


PUBLISHING = (
    Case(
        "mpub-equal",
        "MPUB 200 x 200 B, 2 connections",
        PublishLoad(Publishing.MPUB, 2, processes=1),
        rate(1.3),
    ),
    Case(
        "mpub-mixed",
        "MPUB 200 x 100-300 B, 2 connections",
        PublishLoad(Publishing.MPUB, 2, processes=1, sizes=MIXED),
        rate(1.0, MIXED_FLOOR),
    ),
    Case("pub-2", "PUB 200 B, 2 connections", PublishLoad(Publishing.PUB, 2, processes=1), rate(1.5)),
    Case("pub-50", "PUB 200 B, 50 connections", PublishLoad(Publishing.PUB, 50, processes=1), rate(1.0)),
    Case(
        "pub-pipelined",
        "PUB 200 B, 1 connection, up to 1,000 unanswered",
        PublishLoad(Publishing.PIPELINED, 1, processes=1),
        rate(2.5),
    ),
    Case(
        "pub-pipelined-mixed",
        "PUB 100-300 B, 1 connection, up to 1,000 unanswered",
        PublishLoad(Publishing.PIPELINED, 1, processes=1, sizes=MIXED),
        rate(2.5),
    ),
)

SYNCED = (
    Case(
        "mpub-synced",
        "MPUB 200 x 200 B, 10 connections, OK after fsync",
        PublishLoad(Publishing.MPUB, 10),
        rate(100.0),
        our_flags=("--ack-after=sync",),
        peer_flags=ON_DISK_SYNCED,
    ),
    Case(
        "pub-synced",
        "PUB 200 B, 50 connections, OK after fsync",
        PublishLoad(Publishing.PUB, 50),
        rate(10.0),
        our_flags=("--ack-after=sync",),
        peer_flags=ON_DISK_SYNCED,
    ),
)

DELIVERY = (
    deliver(1_000_000, 1, 2500, 4.0),
    deliver(1_000_000, 10, 2500, 4.0),
    deliver(1_000_000, 100, 2500, 4.0),
    deliver(300_000, 1, 100, 2.0),
    deliver(300_000, 10, 100, 2.0),
    deliver(300_000, 100, 100, 2.0),
    deliver(30_000, 1, 1, 1.0),
    deliver(60_000, 10, 1, 1.0),
    deliver(60_000, 100, 1, 1.0),
    Case(
        "deliver-mixed-1",
        "deliver + FIN, 1 consumer, RDY 2500, sizes 100-300 B",
        DeliverLoad(1_000_000, 1, 2500, sizes=MIXED),
        rate(3.0),
    ),
    Case(
        "deliver-mixed-10",
        "deliver + FIN, 10 consumers, RDY 2500, sizes 100-300 B",
        DeliverLoad(1_000_000, 10, 2500, sizes=MIXED),
        rate(3.0),
    ),
    Case(
        "deliver-single",
        "deliver + FIN, 1 consumer, RDY 2500, backlog of single PUBs (one at a time, 2 connections)",
        DeliverLoad(100_000, 1, 2500, backlog=Publishing.PUB),
        rate(4.0),
    ),
    Case(
        "deliver-pipelined",
        "deliver + FIN, 1 consumer, RDY 2500, backlog of pipelined PUBs",
        DeliverLoad(300_000, 1, 2500, backlog=Publishing.PIPELINED),
        rate(4.0),
    ),
    Case(
        "deliver-shuffled-1",
        "deliver + FIN, 1 consumer, RDY 2500, FINs shuffled over 1,000",
        DeliverLoad(1_000_000, 1, 2500, shuffle_window=1000),
        rate(3.0),
    ),
    Case(
        "deliver-shuffled-10",
        "deliver + FIN, 10 consumers, RDY 2500, FINs shuffled over 1,000",
        DeliverLoad(1_000_000, 10, 2500, shuffle_window=1000),
        rate(3.0),
    ),
    Case(
        "deliver-5-channels",
        "deliver + FIN, 5 channels with 1 consumer each, RDY 2500",
        DeliverLoad(200_000, 5, 2500, channels=5),
        rate(3.0),
    ),
    Case(
        "deliver-while-mpub",
        "deliver + FIN, 1 consumer, RDY 2500, while publishing MPUB on 1 connection",
        BothLoad(PublishLoad(Publishing.MPUB, 1, processes=1)),
        rate(2.0),
    ),
    Case(
        "deliver-while-pub",
        "deliver + FIN, 1 consumer, RDY 2500, while publishing PUB on 2 connections",
        BothLoad(PublishLoad(Publishing.PUB, 2, processes=1)),
        rate(2.0),
    ),
)

LATENCY_METRICS = (
    Metric("p50_ms", "ms", better=Better.LOWER),
    Metric("p99_ms", "ms", 1.0, 1.25, Better.LOWER),
)
RSS_METRIC = Metric("rss_mb", "MB", 1.0, 1.0, Better.LOWER, RSS_LIMIT_MB)

OTHERS = (
    Case(
        "latency",
        "end-to-end latency at 20,000 msg/s, default client settings",
        LatencyLoad(20_000),
        LATENCY_METRICS,
    ),
    Case(
        "latency-unbuffered",
        "end-to-end latency at 20,000 msg/s, client asks for no output buffer",
        LatencyLoad(20_000, UNBUFFERED),
        LATENCY_METRICS,
    ),
    Case("rss", "resident memory, 1,000,000 x 200 B queued", MemoryLoad(1_000_000), (RSS_METRIC,)),
    Case(
        "rss-default",
        "resident memory, 1,000,000 x 200 B queued, the peer with default flags",
        MemoryLoad(1_000_000),
        (Metric("rss_mb", "MB", better=Better.LOWER, limit=RSS_LIMIT_MB),),
        peer_flags=(),
    ),
)

CASES = PUBLISHING + SYNCED + DELIVERY + OTHERS
