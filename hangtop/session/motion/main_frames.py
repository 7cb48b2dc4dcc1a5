"""Where a rank's main thread was in a look at its stacks, and how far two looks are apart."""

from __future__ import annotations

from collections.abc import Sequence

from collectors.samples.stacks import Frame, StackDump

MAIN_THREADS = ("MainThread", "")


def main_frames(dump: StackDump) -> Sequence[Frame] | None:
    """Those of its main thread, the innermost first; None where they were not read."""
    for thread in dump.threads:
        if thread.name in MAIN_THREADS and thread.frames and thread.os_thread_id in {None, dump.pid}:
            return thread.frames
    return None


def looks_after_a_loop(frames: Sequence[Frame]) -> bool:
    """Whether a main thread is met between two turns of an event loop, as of a program that trains in another thread.

    Timers, monitors and connections of its own wake such a loop a hundred times a second, whatever the job does.
    """
    selects = bool(frames) and frames[0].file.endswith("selectors.py")
    return selects and any(frame.name.endswith("_run_once") and "asyncio" in frame.file for frame in frames[:3])


def apart(one: Sequence[Frame], other: Sequence[Frame]) -> int:
    """Python frames of the deeper of two stacks that are not the same in both, counted from where they part."""
    a, b = ([(f.name, f.file, f.line) for f in reversed(frames) if not f.native] for frames in (one, other))
    same = next((place for place, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    return max(len(a), len(b)) - same
