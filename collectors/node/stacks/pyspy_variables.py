"""Whether a program ran between two looks, and whether it came back to where it was: digests of what its frames hold.

A thread that is in one call all the while can give no variable of its frames another value, so digests that differ
show that it ran, where its lines are the same. And a frame that is met once more at the same line with the same values
has come nowhere. That is told of a frame alone that holds nothing but plain values: behind an object, a value that was
cut off or one that a clock gave there may be progress that is not seen. No value leaves the node.
"""

from __future__ import annotations

import json
import time
from typing import Dict, List, NamedTuple, Optional

try:
    from _blake2 import blake2b  # where hashlib has it from, without the 4 MB of OpenSSL that it loads as well
except ImportError:
    from hashlib import blake2b

_HIDES = ("<", "...", "+bigint", "-bigint")
"""In the text of a value that is not told whole."""
_SEVERAL = ("[", "(", "{", "<", '"')
"""How values begin that are known by their address: other threads may change what is in them, or their text is long."""
_BIG = 10**10
"""Whole numbers from here on may be nanoseconds of a clock."""
_DIGITS, _LEAST, _DAY = 5, 3.0, 86400.0
"""Digits behind the point that a clock gives at least, seconds of one that has run for a while, and how far ahead or
back a time may lie that a program waits for."""
_LENGTH = 64
_BYTES = 6


class Digests(NamedTuple):
    """Of one look at a main thread; empty where nothing was read, or nothing can be told."""

    variables: str = ""
    ran: str = ""


def of_main(output: bytes, pid: int, own_pid: Optional[int]) -> Digests:
    """Digests of what py-spy said of a process with its variables."""
    try:
        threads = json.loads(output)
    except ValueError:
        return Digests()
    for thread in threads if isinstance(threads, list) else []:
        if isinstance(thread, dict) and _is_main(thread, pid, own_pid):
            frames = thread.get("frames")
            told = frames if isinstance(frames, list) else []
            return _of_frames([frame for frame in told if isinstance(frame, dict)])
    return Digests()


def _is_main(thread: Dict[str, object], pid: int, own_pid: Optional[int]) -> bool:
    number = thread.get("os_thread_id")
    return thread.get("thread_name") == "MainThread" or (number is not None and number in (pid, own_pid))


def _of_frames(frames: List[Dict[str, object]]) -> Digests:
    python = [frame for frame in frames if frame.get("module") is None]
    if not any(_variables(frame) for frame in python):
        return Digests()
    values, held = blake2b(digest_size=_BYTES), blake2b(digest_size=_BYTES)
    for frame in python:
        held.update(("%s:%s\0" % (frame.get("name"), frame.get("line"))).encode("utf-8", "replace"))
        for variable in _variables(frame):
            text = _text(variable)
            values.update(text.encode("utf-8", "replace") + b"\0")
            known = variable.get("addr") if text.startswith(_SEVERAL) else text
            held.update(("%s\0" % (known,)).encode("utf-8", "replace"))
        values.update(b"\1")
    innermost = [_text(variable) for variable in _variables(frames[0])] if frames[0] is python[0] else []
    plain = bool(innermost) and not any(_may_hide(text) for text in innermost)
    return Digests(values.hexdigest() if plain else "", held.hexdigest())


def _variables(frame: Dict[str, object]) -> List[Dict[str, object]]:
    variables = frame.get("locals")
    return [each for each in variables if isinstance(each, dict)] if isinstance(variables, list) else []


def _text(variable: Dict[str, object]) -> str:
    text = variable.get("repr")
    return text if isinstance(text, str) and text else "<"


def _may_hide(value: str) -> bool:
    return any(sign in value for sign in _HIDES) or any(_of_a_clock(word) for word in value.split(", "))


def _of_a_clock(text: str) -> bool:
    """A number as clocks give them, of about now or of the time that this machine has run for."""
    text = text.strip("()[]{} ").rpartition(": ")[2]
    whole, point, rest = text.partition(".")
    if len(text) > _LENGTH or not (whole.isdecimal() and (rest.isdecimal() or not point)):
        return False
    if not point:
        return int(whole) >= _BIG
    value = float(text)
    return len(rest) >= _DIGITS and (_LEAST <= value <= time.monotonic() + _DAY or abs(value - time.time()) <= _DAY)
