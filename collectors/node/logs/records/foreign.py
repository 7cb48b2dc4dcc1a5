"""Stacks of other languages than Python: Java and Scala, Go, Rust, Lua, Julia, Node, and those of gdb.

Each prints a line a frame in a form of its own. A stack alone says that something was thrown, not what: hearsay. gdb's
is told only where it shows an abort or a signal: of a process that was merely looked at it says nothing.
"""

from __future__ import annotations

from typing import Optional, Pattern, Tuple

from collectors.node import late_re as re
from collectors.node.logs.records.stack_lines import StackLines
from collectors.node.logs.said import Data, Said

_LANGUAGES: Tuple[Tuple[str, Pattern[str]], ...] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("Java", r"^\s{0,8}at [\w.$/<>@]{3,300}\([\w.$ ]{1,80}(?::\d{1,6})?\)\s{0,4}(?:~?\[[^\]\r\n]{1,120}\])?$"),
        ("Node", (r"^\s{1,8}at (?:async )?(?:[\w.<>$ \[\]]{1,160} \()?(?:file://|node:|/)[^\s()]{1,300}"
         r":\d{1,7}:\d{1,5}\)?$")),
        ("Go", (r"^(?:goroutine \d{1,9} (?:gp=\S{1,20} m=\S{1,20}(?: mp=\S{1,20})? )?\[[\w ,]{3,60}\]:"
         r"|^\s{1,8}/?[\w./@+!-]{1,300}\.go:\d{1,6} \+0x[0-9a-f]{1,12})\s{0,4}$")),
        ("Rust", r"^\s{1,16}at [\w./@+-]{1,300}\.rs:\d{1,6}(?::\d{1,5})?\s{0,4}$"),
        ("Lua", (r"^\s{0,8}(?:\[C\]: (?:in |at 0x)|[\w./-]{1,300}\.lua:\d{1,6}: in (?:function|main chunk|local"
         r"|upvalue|method|field))[^\r\n]{0,200}$")),
        ("Julia", r"^\s{0,8}@ (?:\w{1,60} )?[\w./~+-]{1,300}\.jl:\d{1,6}(?: \[inlined\])?\s{0,4}$"),
        ("Julia", (r"^[\w!#@.~-]{1,200} at (?:\.{0,2}/[^\s:]{1,300}(?::\d{1,6}(?: \[inlined\])?"
         r"| \(unknown line\)))\s{0,4}$")),
        ("gdb", (r"^#\d{1,4} {1,4}(?:0x[0-9a-f]{6,16} in )?[\w:~<>,&* .$@?-]{1,400} ?\([^\r\n]{0,400}\)"
         r"(?: (?:at|from) \S{1,300})?\s{0,4}$|^#\d{1,4} {1,4}<signal handler called>\s{0,4}$")),
    )
)  # fmt: skip
_BETWEEN = re.compile(
    r"\s{0,8}(?:\.{3} \d{1,5} (?:more|lines matching)|\d{1,4}: +\S|\[\d{1,4}\] \S"
    r"|[\w./*()-]{1,300}\([^\r\n]{0,200}\)$|created by )"
)
"""Lines of a stack that are no frames of their own: functions of Go and Rust, Julia's numbers, what Java leaves out."""
_FAULTHANDLER = re.compile(
    r"^(?:Current thread|Thread) 0x[0-9a-f]{4,16}[^\r\n]{0,80} \(most recent call first\):\s{0,4}$"
)
_PYTHON = re.compile(r"^\s{1,8}File \"[^\"\r\n]{1,400}\", line \d{1,7} in [\w<>]{1,100}\s{0,4}$")
DUMP = "faulthandler"
"""The dump of Python's threads that a signal or a timer asked for: nothing ended there."""
_WAITS = re.compile(
    r"\b(?P<call>P?MPI_(?:All|Bar|Bcast|Gather|I?Recv|Red|Scan|Scatter|Sendrecv|Wait)\w*|ompi_coll_\w+"
    r"|ompi_request_default_wait\w*|MPIR_(?:Barrier|Allreduce|Bcast|Wait)\w*|MPIDI?_Progress_wait|ncclGroupEnd\w*"
    r"|cu(?:da)?(?:Stream|Event|Device|Ctx)Synchronize|all_reduce|all_gather\w*|reduce_scatter\w*|all_to_all\w*|barrier"
    r"|broadcast\w*|_synchronize_communication|wait_all_gather\w*)\b"
    r"|line \d{1,7} in (?P<python>synchronize|recv|wait)\b"
)
"""Calls in which a rank waits for others, or for its GPU that does."""
_ABORTED = re.compile(
    r"\b(?:raise|abort|__GI_raise|__GI_abort|gsignal|__assert_fail|terminate|pthread_kill)\b|<signal handler"
)
STEMS = (
    b".java:", b".scala:", b".kt:", b"call first):", b"Native Method", b"    at ", b"goroutine ", b".go:", b".rs:",
    b"[C]: ", b".lua:", b".jl:", b"(unknown line)", b".c:", b" in raise (", b" in abort (", b"in __GI_",
    b"signal handler called", b" 0x0000",
)  # fmt: skip
"""Literals of frames."""


def language(text: str) -> str:
    """The language of which a line is a frame; empty for none."""
    if _FAULTHANDLER.match(text) or _PYTHON.match(text):
        return DUMP
    return next((name for name, pattern in _LANGUAGES if pattern.match(text)), "")


class ForeignStack(StackLines):
    """Takes the lines of one stack; :meth:`end` gives the event."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._language = name

    def take(self, text: str) -> bool:
        """Whether the line is a frame, or stands between two."""
        frame = language(text) == self._language
        if not frame and not _BETWEEN.match(text):
            self.over = True
            return False
        self._keep(text, text.strip() if frame else None)
        return True

    def end(self) -> Optional[Said]:
        """The event; None for a single frame, and for a stack of gdb in which nothing ended."""
        looked_at = self._language in ("gdb", DUMP) and not any(map(_ABORTED.search, self._frames))
        if len(self._frames) < 2:
            return None
        if looked_at or self._language == DUMP:
            return self._waiting()
        message = "a stack of %s, whose message is not there" % self._language
        data: Data = {"told": "stack", "message": message, "signature": "user", "consequence": False}
        data["frames"] = list(self._frames[:60])
        return Said("log.error", data)

    def _waiting(self) -> Optional[Said]:
        """Where a process that somebody looked at waits for others; None where it does not, or was at work."""
        call = next(filter(None, map(_WAITS.search, self._frames)), None)
        if call is None:
            return None
        where = call.group("call") or call.group("python")
        return Said(
            "log.error", {"told": "wait", "message": "a stack of %s that waits in %s" % (self._language, where)}
        )
