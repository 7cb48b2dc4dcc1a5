"""Which thread of a rank tells what the rank does: main, or the one that main has handed the work to.

Autograd runs hooks and ZeRO-3's gathers in threads of its own; checkpoints are written by executors; actors and some
trainers run the whole training loop in a worker thread while main sits in an event loop. There main's own frames say
only that it waits for a thread: what that thread does is what the rank does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from collectors.samples.stacks import Frame, StackDump, ThreadStack
from hangtop.diagnosis.stacks.doing import Kind, Role
from hangtop.diagnosis.stacks.frames import function, is_in, library
from hangtop.diagnosis.stacks.reading import Reading, read
from hangtop.diagnosis.stacks.roles import role, started_by_python
from hangtop.diagnosis.stacks.system import System

_NUMBER = re.compile(r"[-_]\d+$")
"""What a pool adds to the names of its threads: it differs from rank to rank."""
_SERVANTS: frozenset[Role] = frozenset(("main", "watchdog", "heartbeat", "gloo", "pin_memory", "store"))
"""Threads that work for the libraries, whatever the job does."""
_HANDED_OVER = ("future", "thread to end", "pool of threads", "event loop")
"""Words of the labels of waits that end when a thread has done its work."""
_POOLED = ("waits for a future", "waits for a pool of threads")
"""How the labels begin of waits that a pool's threads may end."""
_POOL, _ITEM = "concurrent/futures/thread.py", "run"
"""What a pool's thread is in while it works."""
_SERVES = "torch/distributed/rpc/internal.py"
"""Where torch runs what another rank called (2.13)."""
_ON_THE_HOST = "jax/_src/callback.py"
"""Where JAX runs what a program on its device calls on the host, in a thread of XLA's (0.10)."""
_OPEN: frozenset[Kind] = frozenset(("backward", "forward"))
_PASSIVE: frozenset[Kind] = frozenset(("lock", "sleep", "unknown"))
"""What main does while others of its threads may do the rank's work."""


def thread_that_counts(dump: StackDump, main: ThreadStack, reading: Reading) -> tuple[Reading, Role]:
    """Reading and role of the thread that tells what the rank does, given the main thread and its reading."""
    called = None
    if reading.waits in ("peers", "device") and len(dump.threads) > 1:
        called = _called_by_others(dump, main) if reading.waits == "peers" else _called_by_the_device(dump, main)
    return called or _handed_to(dump, main, reading)


def _handed_to(dump: StackDump, main: ThreadStack, reading: Reading) -> tuple[Reading, Role]:
    """The thread that main has handed its work to; main itself where it has not."""
    own: Role = "main" if dump.pid == dump.rank_pid else "data_worker"
    if len(dump.threads) == 1 or reading.waits == "peers" or "shutdown" in reading.context:
        return reading, own
    hands_over = any(word in reading.label for word in _HANDED_OVER)
    passive = reading.kind in _PASSIVE or hands_over or not reading.user
    if not (passive or reading.kind in _OPEN):
        return reading, own
    others = [pair for pair in _others(dump, main) if may_bring(dump, reading, pair[0])]
    if reading.kind == "backward":
        hooks = list(_called_by_the_engine(others))
        if hooks:
            return hooks[0]
    for inner, part in others:
        # beside a backward pass a thread of the job's own may gather a checkpoint: only C++'s threads are part of it
        if inner.waits == "peers" and (passive or not started_by_python(inner.frames)):
            return inner, part
    for inner, part in others:
        if inner.waits == "device" and passive:
            return inner, part
    working = [pair for pair in others if pair[0].user]
    if "event loop" in reading.label:  # what a coroutine awaits is on no stack, and is not a thread with nothing to do
        working = [pair for pair in working if not at_a_queue(pair[0])]
    if len(working) > 1:  # one that a framework runs the job in, beside those that the job's own code started
        working = [pair for pair in working if _run_by_a_library(pair[0])]
    if (hands_over or (passive and not reading.user)) and len(working) == 1:
        return working[0]
    return reading, own


def may_bring(dump: StackDump, waits: Reading, other: Reading) -> bool:
    """Whether another thread may end this wait: of one for a pool that is at work only that pool's threads may.

    Others sleep or wait as well while they have nothing to do: trackers, heartbeats, those that prefetch.
    """
    if not waits.label.startswith(_POOLED) or not any(_works_in_a_pool(thread.frames) for thread in dump.threads):
        return True
    return _works_in_a_pool(other.frames)


def _works_in_a_pool(frames: Sequence[Frame]) -> bool:
    return any(function(frame.name) == _ITEM and is_in(frame.file, _POOL) for frame in frames)


def _called_by_others(dump: StackDump, main: ThreadStack) -> tuple[Reading, Role] | None:
    """A thread in the job's own code that another rank called (torch RPC): what main waits for meanwhile tells less."""
    for thread in dump.threads:
        if any(frame.name == "_run_function" and frame.file.endswith(_SERVES) for frame in thread.frames):
            inner = read(thread.frames, System(), main=False)
            if thread is not main and inner.user:
                return inner, role(thread, dump)
    return None


def _called_by_the_device(dump: StackDump, main: ThreadStack) -> tuple[Reading, Role] | None:
    """A thread in the job's own code that the program on the device waits for: it is what main's wait is for."""
    for thread in dump.threads:
        if thread is not main and any(is_in(frame.file, _ON_THE_HOST) for frame in thread.frames):
            inner = read(thread.frames, System(), main=False)
            if inner.user and not started_by_python(thread.frames):
                return inner, role(thread, dump)
    return None


def at_a_queue(reading: Reading) -> bool:
    """A thread that waits for whoever fills its queue, or empties it, as those that prefetch do most of the time."""
    return reading.kind == "lock" and "queue" in reading.label


def _called_by_the_engine(others: Sequence[tuple[Reading, Role]]) -> Iterator[tuple[Reading, Role]]:
    """Threads in which the engine of a backward pass calls into Python, those in torch's own files first.

    A hook that is registered on a tensor is called from C++ with no file of torch's in between. While main is in a
    backward pass, a thread that Python did not start is the engine's.
    """
    for named in (True, False):
        for inner, part in others:
            by_the_engine = part == "autograd" if named else part == "python" and not started_by_python(inner.frames)
            if by_the_engine and inner.kind != "unknown" and (inner.decided_by is not None or inner.user):
                yield inner, "autograd"


def second_collective(dump: StackDump, judged: Reading) -> str:
    """``gather_object in its thread AsyncCheckpointExecutor``: a collective in which another thread waits as well.

    Empty where the judged thread is in none, or alone in one. Only threads that Python started count: those of C++ are
    part of what the judged one does.
    """
    if judged.kind != "collective" or judged.waits != "peers" or len(dump.threads) == 1:
        return ""
    for thread in dump.threads:
        if not started_by_python(thread.frames) or role(thread, dump) != "python":
            continue
        inner = read(thread.frames, System(), main=False)
        if inner.kind == "collective" and inner.waits == "peers" and inner.op and inner.frames != judged.frames:
            return f"{inner.op} in its thread {_NUMBER.sub('', thread.name) or 'without a name'}"
    return ""


def _run_by_a_library(reading: Reading) -> bool:
    """The user's code is called from a library's, not started as a thread by itself."""
    outer = reading.frames[reading.frames.index(reading.user[-1]) + 1 :]
    return any(not frame.native and library(frame.file) not in ("", "python") for frame in outer)


def _others(dump: StackDump, main: ThreadStack) -> Iterator[tuple[Reading, Role]]:
    for thread in dump.threads:
        if thread is main or not thread.frames:
            continue
        part = role(thread, dump)
        if part not in _SERVANTS:
            inner = read(thread.frames, System(), main=False)
            if inner.user or inner.decided_by is not None:
                yield inner, part
