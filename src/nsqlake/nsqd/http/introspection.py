"""Looking into the running process: stacks, memory, a profile by sampling. For operators, as text."""

import asyncio
import gc
import io
import sys
import threading
import traceback
import tracemalloc
from collections import Counter
from types import FrameType

__all__ = ["profile", "stack_dump", "thread_list", "traced_memory"]

SAMPLE_S = 0.01
TOP_COUNT = 50
MAX_DEPTH = 100


def stack_dump() -> str:
    """The stacks of all threads and tasks."""
    frames = sys._current_frames()
    out = io.StringIO()
    for thread in threading.enumerate():
        out.write(f"thread {thread.name}\n")
        frame = frames.get(thread.ident or 0)
        if frame is not None:
            out.writelines(traceback.format_stack(frame, MAX_DEPTH))
        out.write("\n")
    for task in sorted(asyncio.all_tasks(), key=lambda task: task.get_name()):
        out.write(f"task {task.get_name()}\n")
        for frame in task.get_stack(limit=MAX_DEPTH):
            out.writelines(traceback.format_stack(frame, 1))
        out.write("\n")
    return out.getvalue()


def thread_list() -> str:
    return "".join(f"{thread.name} daemon={thread.daemon}\n" for thread in threading.enumerate())


async def traced_memory(seconds: float) -> str:
    """What was allocated in the next `seconds` and is still there; tracing slows the daemon down."""
    was_tracing = tracemalloc.is_tracing()
    if not was_tracing:
        tracemalloc.start()
    try:
        await asyncio.sleep(0 if was_tracing else seconds)
        snapshot = await asyncio.to_thread(tracemalloc.take_snapshot)
        current_bytes, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        if not was_tracing:
            tracemalloc.stop()
    top = await asyncio.to_thread(snapshot.statistics, "lineno")
    lines = [f"traced now={current_bytes} peak={peak_bytes}", *(_line(each) for each in top[:TOP_COUNT])]
    lines += [f"gc generation {number}: {stats}" for number, stats in enumerate(gc.get_stats())]
    return "\n".join(lines) + "\n"


def _line(statistic: tracemalloc.Statistic) -> str:
    frame = statistic.traceback[0]
    return f"{statistic.size:>12} bytes {statistic.count:>8} blocks {frame.filename}:{frame.lineno}"


async def profile(seconds: float) -> str:
    """Where all threads were, sampled: `outer;inner count` per line, as flame graph tools read it."""
    stopping = threading.Event()
    try:
        counts = await asyncio.to_thread(_sample, seconds, stopping)
    finally:
        stopping.set()
    return "".join(f"{stack} {count}\n" for stack, count in counts.most_common())


def _sample(seconds: float, stopping: threading.Event) -> Counter[str]:
    """In a thread of its own: the event loop cannot look at itself."""
    counts: Counter[str] = Counter()
    own = threading.get_ident()
    for _ in range(max(1, round(seconds / SAMPLE_S))):
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        for ident, frame in sys._current_frames().items():
            if ident != own:
                counts[";".join([names.get(ident, "?"), *_collapsed(frame)])] += 1
        if stopping.wait(SAMPLE_S):
            break
    return counts


def _collapsed(frame: FrameType | None) -> list[str]:
    stack: list[str] = []
    while frame is not None and len(stack) < MAX_DEPTH:
        code = frame.f_code
        stack.append(f"{code.co_filename.rpartition('/')[2]}:{code.co_name}")
        frame = frame.f_back
    return stack[::-1]
