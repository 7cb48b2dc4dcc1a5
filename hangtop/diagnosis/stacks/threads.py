"""Roles of the threads of a rank, and the thread that shows what the rank does.

Autograd runs hooks and ZeRO-3's gathers in threads of its own; executors write checkpoints; actors and some trainers
run the whole training loop in a worker thread while main sits in an event loop. In these cases main's own frames show
only a wait for a thread, and the frames of the awaited thread show what the rank does.
"""

from __future__ import annotations

import re

from collectors.samples.stacks import StackDump, ThreadStack
from hangtop.diagnosis.stacks.frames import is_in, library
from hangtop.diagnosis.stacks.parsed import ParsedStack, parse
from hangtop.diagnosis.stacks.states import Kind, Meaning, Role

_ENGINE = re.compile(r"torch::autograd::(?:python::Python)?Engine::thread_init")
_HANDED_OVER = frozenset((Meaning.FUTURE, Meaning.THREAD_POOL, Meaning.THREAD, Meaning.EVENT_LOOP))
"""Waits of main that end when another thread has done its work."""
_QUEUES = frozenset((Meaning.QUEUE, Meaning.PROCESS_QUEUE))
_PASSIVE: frozenset[Kind] = frozenset(("lock", "sleep", "unknown"))
"""Kinds of main's activity while another thread may do the rank's work."""


def thread_name(thread: ThreadStack) -> str:
    """Name of a thread, else its number."""
    return thread.name or f"thread {thread.os_thread_id or thread.thread_id}"


def role(thread: ThreadStack, dump: StackDump) -> Role:
    """Role of a thread of a dump. Autograd's threads are made in C++, and Python enters them through hooks."""
    if thread is dump.main:
        return "main"
    if all(frame.native for frame in thread.frames):
        return "autograd" if any(_ENGINE.match(frame.name) for frame in thread.frames) else "library"
    return "python" if any(is_in(frame.file, "/threading.py") for frame in thread.frames) else "autograd"


def thread_that_counts(dump: StackDump, main: ThreadStack, stack: ParsedStack) -> tuple[ParsedStack, Role]:
    """Stack and role of the thread to which main has handed its work, else of main."""
    of_main, doing = (stack, role(main, dump)), stack.activity
    hands_over = doing.meaning in _HANDED_OVER
    passive = doing.kind in _PASSIVE or hands_over or not stack.user
    if doing.waits == "peers" or "shutdown" in doing.context or not (passive or doing.kind in ("backward", "forward")):
        return of_main
    others = [
        (inner, part)
        for thread in dump.threads
        if thread is not main and (part := role(thread, dump)) != "library"
        if (inner := parse(thread.frames, main=False)).user or inner.activity.by_frame
    ]
    for inner, part in others:
        # a thread of the job's own may gather a checkpoint during backward: only autograd's threads belong to backward
        engine = doing.kind == "backward" and part == "autograd"
        if engine or (inner.activity.waits == "peers" and (passive or part == "autograd")):
            return inner, part
    for inner, part in others:
        if doing.meaning in _QUEUES and inner.activity.kind in ("data", "checkpoint"):
            return inner, part
    working = [pair for pair in others if pair[0].user]
    if len(working) > 1:  # prefer the one in which a framework runs the job
        working = [pair for pair in working if _run_by_a_library(pair[0])]
    return working[0] if (hands_over or not stack.user) and len(working) == 1 else of_main


def _run_by_a_library(stack: ParsedStack) -> bool:
    """Whether a library calls the user code; else the user code is the outermost of the thread."""
    outer = stack.frames[stack.frames.index(stack.user[-1]) + 1 :]
    return any(not frame.native and library(frame.file) not in ("", "python") for frame in outer)
