"""Exceptions that Python itself says it ignored: in a finalizer, a callback at exit, a destructor."""

from __future__ import annotations

from collectors.node import late_re as re
from collectors.node.logs.lines import line
from collectors.node.logs.records import tracebacks

_STEM = b"Exception ignored "
_SAID = re.compile(r"Exception ignored (?:in|on|while)\b")
_ROW = 400
"""Bytes of a line above that are looked at."""


def ignored(record: line.Line, before: bytes, now: float) -> bool:
    """Whether Python's word that it ignores the exception stands above the traceback that ``record`` begins.

    Lines of other streams may stand between. Several processes of one label write into one another there: what is left
    of their tracebacks without a beginning is ignored as well, as far as ``before``, the bytes above, reach.
    """
    if _STEM not in before:
        return False
    whole = tracebacks.OPENER.search(record.text) is not None
    for raw in reversed(before.split(b"\n")):
        own = [said for said in line.records(raw[:_ROW], 0, now) if said.stream == record.stream and said.text.strip()]
        if any(_SAID.match(said.text) for said in own):
            return True
        if own and whole:
            return False
    return False
