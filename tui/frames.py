"""Stack frames as short text."""

from __future__ import annotations

import re

from collectors.samples.stacks import Frame, StackDump

_INSTALLED = re.compile(r"^.*/(?:(?:site|dist)-packages|lib/python3\.\d+)/")


def where(frame: Frame) -> str:
    """``file:line``, without the folder of installed packages or the standard library."""
    file = _INSTALLED.sub("", frame.file)
    return f"{file}:{frame.line}" if frame.line else file


def short_stack(dump: StackDump, most: int) -> list[str]:
    """``read_shard (data.py:88)``: frames of the main thread, innermost first; of the user's code, if there are any."""
    main = dump.main
    frames = [] if main is None else main.frames
    shown = [frame for frame in frames if not _INSTALLED.match(frame.file)] or frames
    return [f"{frame.name} ({where(frame).rpartition('/')[2]})" for frame in shown[:most]]
