"""What the threads of a rank are there for, and which one tells what the rank does.

Autograd runs hooks and ZeRO-3's gathers in threads of its own; checkpoints are written by executors; actors and some
trainers run the whole training loop in a worker thread while main sits in an event loop. There main's own frames say
only that it waits for a thread: what that thread does is what the rank does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from collectors.samples.stacks import Frame, StackDump, ThreadStack
from hangtop.diagnosis.stacks.frames import function, is_in, library
from hangtop.diagnosis.stacks.parsed import ParsedStack, parse
from hangtop.diagnosis.stacks.states import Kind, Meaning, Role

_LIBRARY_FILES = (
    "torch/utils/data/_utils/pin_memory.py", "torch/distributed/elastic/", "torch/distributed/rendezvous.py",
)  # fmt: skip
_LIBRARY_SYMBOLS = (
    "c10d::ProcessGroupNCCL::ncclCommWatchdog", "c10d::ProcessGroupNCCL::watchdogHandler",
    "c10d::ProcessGroupNCCL::Watchdog", "c10d::ProcessGroupNCCL::heartbeatMonitor",
    "c10d::ProcessGroupNCCL::HeartbeatMonitor", "c10d::ProcessGroupGloo::runLoop", "gloo::transport::",
    "c10d::detail::TCPStoreMasterDaemon", "c10d::detail::LibUVStoreDaemon",
)  # fmt: skip
"""Beginnings of native functions, and files, of threads that work for the libraries, whatever the job does."""
_ENGINE_SYMBOLS = ("torch::autograd::Engine::thread_init", "torch::autograd::python::PythonEngine::thread_init")
_AUTOGRAD_FILES = (
    "torch/autograd/function.py", "torch/autograd/graph.py", "torch/utils/checkpoint.py", "torch/_functorch/",
    "torch/distributed/fsdp/", "torch/distributed/_composable/", "torch/nn/parallel/distributed.py",
    "torch/distributed/algorithms/ddp_comm_hooks/",
)  # fmt: skip
_STARTED_BY_PYTHON = frozenset(("_bootstrap", "_bootstrap_inner"))
_HANDED_OVER = frozenset((Meaning.FUTURE, Meaning.THREAD, Meaning.THREAD_POOL, Meaning.EVENT_LOOP))
"""Waits that end when a thread has done its work."""
_POOLED = frozenset((Meaning.FUTURE, Meaning.THREAD_POOL))
"""Waits that a pool's threads may end."""
_QUEUES = frozenset((Meaning.QUEUE, Meaning.QUEUE_TAKEN, Meaning.PROCESS_QUEUE))
_POOL, _ITEM = "concurrent/futures/thread.py", "run"
"""What a pool's thread is in while it works."""
_OPEN: frozenset[Kind] = frozenset(("backward", "forward"))
_PASSIVE: frozenset[Kind] = frozenset(("lock", "sleep", "unknown"))
"""What main does while others of its threads may do the rank's work."""


def main_thread(dump: StackDump) -> ThreadStack | None:
    """The main thread of a dump; None when it has none (torn, or no frames at all)."""
    for thread in dump.threads:
        if thread.os_thread_id == dump.pid or thread.name == "MainThread":
            return thread
    # a process that never imported threading names none; the program's first line is on its main thread
    named = [thread for thread in dump.threads if any(frame.name == "<module>" for frame in thread.frames)]
    return named[0] if named else None


def role(thread: ThreadStack, dump: StackDump) -> Role:
    """What a thread of a dump is there for."""
    if thread is main_thread(dump):
        return "main" if dump.pid == dump.rank_pid else "data_worker"
    for frame in thread.frames:
        if frame.name.startswith(_LIBRARY_SYMBOLS) if frame.native else _is_in_any(frame.file, _LIBRARY_FILES):
            return "library"
        if frame.native and frame.name.startswith(_ENGINE_SYMBOLS):
            return "autograd"
    # autograd's threads are C++'s: Python enters them through hooks, without its own start of a thread
    python = [frame for frame in thread.frames if not frame.native]
    hooks = not _started_by_python(python) and any(_is_in_any(frame.file, _AUTOGRAD_FILES) for frame in python)
    return "autograd" if hooks else "python"


def _is_in_any(path: str, parts: Sequence[str]) -> bool:
    return any(is_in(path, part) for part in parts)


def _started_by_python(frames: Sequence[Frame]) -> bool:
    """True for a thread that :mod:`threading` started; False for one of C++ that calls into Python."""
    return any(not frame.native and function(frame.name) in _STARTED_BY_PYTHON for frame in frames)


def thread_that_counts(dump: StackDump, main: ThreadStack, stack: ParsedStack) -> tuple[ParsedStack, Role]:
    """Stack and role of the thread that main has handed its work to; main's own where it has not."""
    own: Role = "main" if dump.pid == dump.rank_pid else "data_worker"
    if len(dump.threads) == 1 or stack.says.waits == "peers" or "shutdown" in stack.says.context:
        return stack, own
    hands_over = stack.says.meaning in _HANDED_OVER
    passive = stack.says.kind in _PASSIVE or hands_over or not stack.user
    if not (passive or stack.says.kind in _OPEN):
        return stack, own
    others = [pair for pair in _others(dump, main) if may_bring(dump, stack, pair[0])]
    if stack.says.kind == "backward":
        hooks = list(_called_by_the_engine(others))
        if hooks:
            return hooks[0]
    for inner, part in others:
        # beside a backward pass a thread of the job's own may gather a checkpoint: only C++'s threads are part of it
        if inner.says.waits == "peers" and (passive or not _started_by_python(inner.frames)):
            return inner, part
    for inner, part in others:
        if inner.says.waits == "device" and passive:
            return inner, part
    working = [pair for pair in others if pair[0].user]
    if stack.says.meaning is Meaning.EVENT_LOOP:  # what a coroutine awaits is on no stack, and no idle thread's work
        working = [pair for pair in working if not at_a_queue(pair[0])]
    if len(working) > 1:  # one that a framework runs the job in, beside those that the job's own code started
        working = [pair for pair in working if _run_by_a_library(pair[0])]
    if (hands_over or (passive and not stack.user)) and len(working) == 1:
        return working[0]
    return stack, own


def may_bring(dump: StackDump, waits: ParsedStack, other: ParsedStack) -> bool:
    """Whether another thread may end this wait: of one for a pool that is at work only that pool's threads may.

    Others sleep or wait as well while they have nothing to do: trackers, heartbeats, those that prefetch.
    """
    if waits.says.meaning not in _POOLED or not any(_works_in_a_pool(thread.frames) for thread in dump.threads):
        return True
    return _works_in_a_pool(other.frames)


def _works_in_a_pool(frames: Sequence[Frame]) -> bool:
    return any(function(frame.name) == _ITEM and is_in(frame.file, _POOL) for frame in frames)


def at_a_queue(stack: ParsedStack) -> bool:
    """A thread that waits until its queue is filled, or emptied, as those that prefetch do most of the time."""
    return stack.says.meaning in _QUEUES


def _called_by_the_engine(others: Sequence[tuple[ParsedStack, Role]]) -> Iterator[tuple[ParsedStack, Role]]:
    """Threads in which the engine of a backward pass calls into Python, those in torch's own files first.

    A hook that is registered on a tensor is called from C++ with no file of torch's in between. While main is in a
    backward pass, a thread that Python did not start is the engine's.
    """
    for named in (True, False):
        for inner, part in others:
            by_the_engine = part == "autograd" if named else part == "python" and not _started_by_python(inner.frames)
            if by_the_engine and inner.says.kind != "unknown" and (inner.says.decided_by is not None or inner.user):
                yield inner, "autograd"


def _run_by_a_library(stack: ParsedStack) -> bool:
    """The user's code is called from a library's, not started as a thread by itself."""
    outer = stack.frames[stack.frames.index(stack.user[-1]) + 1 :]
    return any(not frame.native and library(frame.file) not in ("", "python") for frame in outer)


def _others(dump: StackDump, main: ThreadStack) -> Iterator[tuple[ParsedStack, Role]]:
    for thread in dump.threads:
        if thread is main or not thread.frames:
            continue
        part = role(thread, dump)
        if part != "library":
            inner = parse(thread.frames, main=False)
            if inner.user or inner.says.decided_by is not None:
                yield inner, part
