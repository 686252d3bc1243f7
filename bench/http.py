"""Compare the HTTP side of our nsqd with that of a peer; run as `python -m bench.http`."""

import sys

import bench.http_runners  # noqa: F401 - makes its loads known
from bench.case import Better, Case, LogReadLoad, Metric, StatsLoad, WrkLoad
from bench.compare import main

BODY = b"x" * 200
BATCH = 200
LINES = b"\n".join([BODY] * BATCH)
BINARY = BATCH.to_bytes(4, "big") + (len(BODY).to_bytes(4, "big") + BODY) * BATCH
MB = 1024 * 1024

PUBLISHED = (Metric("rate", "msg/s", 1.5, 1.0), Metric("p99_ms", "ms", better=Better.LOWER))

CASES = (
    Case("pub", "POST /pub of 200 B, 20 connections", WrkLoad("/pub?topic=bench", BODY), PUBLISHED),
    Case("mpub", "POST /mpub of 200 lines of 200 B", WrkLoad("/mpub?topic=bench", LINES, BATCH), PUBLISHED),
    Case(
        "mpub-binary",
        "the same with binary=true",
        WrkLoad("/mpub?topic=bench&binary=true", BINARY, BATCH),
        PUBLISHED,
    ),
    Case(
        "stats",
        "GET /stats?format=json of 2,000 topics with a channel each, while 5,000 msg/s flow",
        StatsLoad(2_000),
        (
            Metric("stats_ms", "ms", better=Better.LOWER, limit=100),
            Metric("stall_ms", "ms stall", better=Better.LOWER),
            Metric("quiet_stall_ms", "ms stall unasked", better=Better.LOWER),
        ),
        is_ours_alone=True,  # the peer takes minutes to make the topics
    ),
    Case(
        "log-read",
        "GET /log/read of 256 MB in the page cache, 64 MB at a time, 1 connection",
        LogReadLoad(1_300_000, 64 * MB),
        (Metric("rate", "MB/s", limit=500),),
        is_ours_alone=True,  # the peer has no log to read
    ),
)


if __name__ == "__main__":
    try:
        sys.exit(main(cases=CASES, program="python -m bench.http"))
    except KeyboardInterrupt:
        sys.exit(130)
