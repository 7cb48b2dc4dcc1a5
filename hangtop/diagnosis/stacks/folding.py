"""A stack for people: user frames kept, libraries folded, and at the end what it means."""

from __future__ import annotations

from functools import lru_cache

from collectors.samples.stacks import Frame
from hangtop.diagnosis.stacks.frames import is_machinery, is_user, library, place
from hangtop.diagnosis.stacks.reading import Reading


@lru_cache(maxsize=4096)
def folded(reading: Reading) -> tuple[str, ...]:
    """Lines of a stack, outermost first: user frames, one ``[torch]`` a run of a library, ``⟨waits in all_reduce⟩``."""
    lines: list[str] = []
    for frame in reversed(reading.frames):
        line = "" if is_machinery(frame) else _line(frame)
        if line and (not lines or lines[-1] != line):
            lines.append(line)
    if reading.decided_by is not None or reading.kind not in ("code", "unknown"):
        while lines and lines[-1].startswith("["):
            lines.pop()
        lines.append(f"⟨{reading.meaning}⟩")
    return tuple(lines)


def _line(frame: Frame) -> str:
    if is_user(frame):
        return place(frame)
    if frame.native:
        return "[native]"
    name = library(frame.file)
    return "" if name == "python" else f"[{name}]"
