"""`nsqlake demo` from start to stop: nsqd, the traffic, the progress line, and everything down again."""

import signal
import sys
from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Event, Thread

from nsqlake.apps.demo.child_nsqd import HOST, HTTP_PORT, NSQ_PORT, ChildNsqd, choose_port
from nsqlake.apps.demo.progress import show_progress
from nsqlake.apps.demo.traffic import CHANNEL, TOPIC, Consumer, Generator
from nsqlake.errors import NsqlakeError

__all__ = ["run_demo"]

OK, FAILED = 0, 1

_POLL_S = 0.02
_START_LIMIT_S = 120.0  # after a crash, nsqd reads its last log files first
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_ASKED = ""  # the reason to stop when somebody asked for it

Reasons = SimpleQueue[str]  # the first thing in it ends the demo; `put` is safe in a signal handler
Work = Callable[[tuple[str, int], Event], None]

_GUIDE = """\
nsqd, the broker, listens on {host}:{port} (process {pid}), its HTTP API on {host}:{http_port}.
That is all there is so far: nsqlookupd, nsqadmin and the command-line tools are those of NSQ.
A generator publishes to the topic {topic}, a consumer finishes on the channel {channel}.

  figures    curl '{api}/stats?topic={topic}'
  metrics    curl {api}/metrics
  publish    curl -d world '{api}/pub?topic=hello'
  look       curl '{api}/message/peek?topic={topic}&count=3'
  again      curl -X POST '{api}/channel/seek?topic={topic}&channel={channel}&to=earliest'
  tail       nsq_tail --topic={topic} --nsqd-tcp-address={host}:{port}
             or any NSQ client: connect to that address, SUB {topic} <a channel of yours>
  messages   {data}/topics/{topic}.topic/log
  log        {log}
  stop       Ctrl-C; kill -9 {pid} to see what survives: start again and compare
"""


def run_demo(data_path: str, rate: int) -> int:
    """Run until a signal comes or a part fails; the exit code."""
    reasons: Reasons = SimpleQueue()
    for number in _STOP_SIGNALS:
        signal.signal(number, lambda *_: reasons.put(_ASKED))
    try:
        nsqd = ChildNsqd(data_path, _port(NSQ_PORT), _port(HTTP_PORT))
    except OSError as error:
        return _fail(f"cannot write to {data_path}: {error.strerror}")
    reason = "interrupted by an error of its own"
    try:
        reason = _wait_listening(nsqd, reasons)
        if "address already in use" in reason:  # somebody was faster
            nsqd = ChildNsqd(data_path, 0, 0)
            reason = _wait_listening(nsqd, reasons)
        if not reason and nsqd.port and nsqd.http_port:
            reason = _let_flow(nsqd, nsqd.port, nsqd.http_port, rate, reasons)
    finally:
        code = nsqd.stop()
    if reason:
        return _fail(reason)
    if code:
        return _fail(f"nsqd ended with exit code {code}: {nsqd.last_line}")
    print(f"stopped; what is not finished yet is kept in {nsqd.data_path}", flush=True)
    return OK


def _port(wanted: int) -> int:
    port = choose_port(wanted)
    if not port:
        print(f"port {wanted} is taken, nsqd gets another one", flush=True)
    return port


def _wait_listening(nsqd: ChildNsqd, reasons: Reasons) -> str:
    """ "" when nsqd listens, or when somebody asked to stop before it did."""
    for _ in range(int(_START_LIMIT_S / _POLL_S)):
        if nsqd.http_port is not None:
            return ""
        reason = _next_reason(nsqd, reasons, _POLL_S)
        if reason is not None:
            return reason
    return f"nsqd did not start within {_START_LIMIT_S:.0f} s, see {nsqd.log_path}"


def _let_flow(nsqd: ChildNsqd, port: int, http_port: int, rate: int, reasons: Reasons) -> str:
    """Traffic until there is a reason to stop, which is returned."""
    print(
        _GUIDE.format(
            host=HOST,
            port=port,
            http_port=http_port,
            api=f"http://{HOST}:{http_port}",
            pid=nsqd.pid,
            topic=TOPIC,
            channel=CHANNEL,
            data=nsqd.data_path,
            log=nsqd.log_path,
        ),
        flush=True,
    )
    generator, consumer, stopping = Generator(rate), Consumer(), Event()
    works: tuple[Work, ...] = (generator.run, consumer.run)
    threads = [Thread(target=_work, args=(work, (HOST, port), stopping, reasons)) for work in works]
    for thread in threads:
        thread.start()
    try:
        with show_progress(generator, consumer) as progress:
            reason = None
            while reason is None:
                reason = _next_reason(nsqd, reasons, progress.interval_s)
                progress.step()
    finally:
        stopping.set()
        for thread in threads:
            thread.join()
    print(f"published {generator.published:,}, finished {consumer.finished:,}", flush=True)
    return reason


def _work(work: Work, address: tuple[str, int], stopping: Event, reasons: Reasons) -> None:
    try:
        work(address, stopping)
    except (OSError, NsqlakeError) as error:
        reasons.put(f"the connection to nsqd failed: {error}")


def _next_reason(nsqd: ChildNsqd, reasons: Reasons, wait_s: float) -> str | None:
    """Why to stop, None if nothing happened for `wait_s`."""
    try:
        reason = reasons.get(timeout=wait_s)
    except Empty:
        reason = None
    if reason != _ASKED and nsqd.exit_code is not None:
        return f"nsqd stopped with exit code {nsqd.exit_code}: {nsqd.last_line}"
    return reason


def _fail(reason: str) -> int:
    print(f"nsqlake demo: {reason}", file=sys.stderr, flush=True)
    return FAILED
