"""The broker for the clients: ours in this process, or another nsqd that NSQLAKE_INTEROP_NSQD names."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from nsqlake.nsqd.daemon import Daemon
from nsqlake.nsqd.live_topic import LiveTopic
from nsqlake.nsqd.session import Session
from nsqlake.testing.nsqd import running_nsqd as running_in_process
from tests.fakes.certificates import CertificateAuthority

START_LIMIT_SECONDS = 20
STOP_LIMIT_SECONDS = 20

Stats = dict[str, Any]


class Broker(NamedTuple):
    tcp_address: str
    ca_file: str
    stats: Callable[[], Stats]  # in the form of nsqd's /stats

    def topics(self, prefix: str) -> dict[str, Stats]:
        return {
            topic["topic_name"]: topic
            for topic in self.stats()["topics"]
            if topic["topic_name"].startswith(prefix)
        }


@contextlib.contextmanager
def running_nsqd(folder: Path) -> Iterator[Broker]:
    authority = CertificateAuthority(str(folder / "certificates"))
    server = authority.issue_server()
    data_path = folder / "data"
    data_path.mkdir()
    other_nsqd = shlex.split(os.environ.get("NSQLAKE_INTEROP_NSQD", ""))
    if other_nsqd:
        certificate = [f"--tls-cert={server.cert_file}", f"--tls-key={server.key_file}"]
        with _running_other([*other_nsqd, f"--data-path={data_path}", *certificate], folder / "log") as found:
            tcp, http = found
            yield Broker(tcp, authority.ca_file, lambda: _fetch_stats(http))
        return
    options = {"data_path": str(data_path), "tls_cert": server.cert_file, "tls_key": server.key_file}
    with running_in_process(**options) as nsqd:
        yield Broker(nsqd.tcp_address, authority.ca_file, lambda: nsqd.call(_stats_of))


def _stats_of(daemon: Daemon) -> Stats:
    sessions = [connection.session for connection in daemon.connections]
    producers = [
        {**_client(session), "pub_counts": [{"topic": topic} for topic in session.publish_counts]}
        for session in sessions
        if session.publish_counts
    ]
    topics = [_topic(topic, sessions) for topic in daemon.broker.topics.values()]
    return {"topics": topics, "producers": producers}


def _topic(topic: LiveTopic, sessions: list[Session]) -> Stats:
    channels = [
        {
            "channel_name": name,
            "depth": channel.core.depth,
            "in_flight_count": channel.core.ledger.out.count,
            "deferred_count": len(channel.core.ledger.deferred),
            "requeue_count": channel.core.requeue_count,
            "timeout_count": channel.core.timeout_count,
            "clients": [_client(session) for session in sessions if session.channel is channel],
        }
        for name, channel in topic.channels.items()
    ]
    return {"topic_name": topic.name, "message_count": topic.core.message_count, "channels": channels}


def _client(session: Session) -> Stats:
    settings = session.settings
    return {
        "user_agent": settings.user_agent,
        "tls": session.is_tls,
        "snappy": settings.snappy,
        "deflate": settings.deflate,
    }


def _fetch_stats(http_address: str) -> Stats:
    with urllib.request.urlopen(f"http://{http_address}/stats?format=json", timeout=5) as answer:
        stats: Stats = json.load(answer)
    return stats


@contextlib.contextmanager
def _running_other(command: list[str], log: Path) -> Iterator[tuple[str, str]]:
    addresses = [f"--{name}-address=127.0.0.1:0" for name in ("tcp", "http", "https")]
    with (
        log.open("wb") as output,
        subprocess.Popen([*command, *addresses], stdout=output, stderr=output) as process,
    ):
        try:
            yield _listening(process, log, "TCP"), _listening(process, log, "HTTP")
        finally:
            _stop(process)


def _listening(process: subprocess.Popen[bytes], log: Path, protocol: str) -> str:
    deadline = time.monotonic() + START_LIMIT_SECONDS
    while time.monotonic() < deadline:
        if found := re.search(rf"\b{protocol}: listening on (\S+)", log.read_text()):
            return found[1]
        if process.poll() is not None:
            break
        time.sleep(0.05)
    raise RuntimeError(f"nsqd did not listen for {protocol}, it wrote:\n{log.read_text()}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
