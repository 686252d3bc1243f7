"""Running the programs that pages show, with the daemons, ports and files they name."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
from pathlib import Path
from threading import Timer
from typing import Any

from nsqlake.testing import running_cluster
from nsqlake.testing.cluster import ClusterFixture
from tests.fakes.certificates import CertificateAuthority

LIMIT_S = 30.0
NSQD_PORT, LOOKUPD_PORT = "4150", "4161"
AUTHORITY = "ca.pem"
RUNS_FOR_EVER = ".run()"
TOPIC_OF_CONSUMER = re.compile(r'Consumer\(\s*"(\w+)"')


def run_program(program: str, folder: Path) -> None:
    """To its end; a consumer that runs for ever is stopped when it has shown something."""
    options: dict[str, Any] = {}
    if AUTHORITY in program:
        server = CertificateAuthority(str(folder)).issue_server()
        options = {"tls_cert": server.cert_file, "tls_key": server.key_file}
    lookupds = int(LOOKUPD_PORT in program)
    with running_cluster(nsqds=1, lookupds=lookupds, **options) as cluster, contextlib.chdir(folder):
        ready = program.replace(NSQD_PORT, str(cluster.nsqds[0].tcp_port))
        for lookupd in cluster.lookupds:
            ready = ready.replace(LOOKUPD_PORT, str(lookupd.http_port))
        if RUNS_FOR_EVER in program:
            _feed(cluster, TOPIC_OF_CONSUMER.findall(program)[0])
            _run_until_it_prints(ready)
        else:
            exec(compile(ready, "page", "exec"), {"__name__": "__main__"})


def _feed(cluster: ClusterFixture, topic: str) -> None:
    cluster.nsqds[0].publish(topic, b"order 1", b"order 2")
    cluster.wait_announced()


def _run_until_it_prints(program: str) -> None:
    command = [sys.executable, "-u", "-W", "error", "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        late = Timer(LIMIT_S, process.kill)
        late.start()
        try:
            assert process.stdout is not None
            shown = process.stdout.readline()
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate()
        finally:
            late.cancel()
            process.kill()
    assert shown, errors.decode()
    assert process.returncode == 0, errors.decode()
