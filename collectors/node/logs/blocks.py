"""Records of several lines, as the parser holds them open: one at most per stream."""

from __future__ import annotations

from typing import List, Optional, Protocol, Tuple

from collectors.node import late_re as re
from collectors.node.logs.families import fatal, mismatch, perf
from collectors.node.logs.families.fatal import FatalBlock
from collectors.node.logs.lines import line_prefixes
from collectors.node.logs.lines.line import Line
from collectors.node.logs.records import exceptions, native, tracebacks
from collectors.node.logs.records.elastic_block import ENTRY, ElasticBlock
from collectors.node.logs.records.elastic_block import OPENER as ELASTIC
from collectors.node.logs.records.outcome import OpenBlock, Outcome
from collectors.node.logs.said import Said

OPENERS = (
    b"Traceback (",
    b'File "',
    b'File \\"',  # in a line of JSON
    b"Fatal Python error",
    b"Failures:",
    b"Root Cause",
    b"Stack trace of the failed collective",
    b"busbw",
    b" last):",
    b"(local_rank: ",
    b"exitcode",
    b"frame #",
    b"+0x",
    b"      : ",
    b"# 0x",
    b"[bt] (",
    b"# gsignal in ",
    b"# abort in ",
    b"@     ",
    b"] [ ",
    b"] [1",
    b"Exception raised from ",
)
"""Literals of the lines that open a block."""

_FAILED_STACK = re.compile(r"Stack trace of the failed collective:\s*$")
_FAILED_FRAME = re.compile(r"^#\d+ (?P<function>.*?) from (?P<file>.*):(?P<line>\d+)\s*$")
_AT_HEAD = 3
"""Lines within which a log that was cut in the midst of a traceback shows its first frame.

Further down a list of frames may be anything: a compiler's remark on user code, a logged stack. Only torch's hook for
uncaught exceptions puts the rank in front.
"""


class Exceptional:
    """A Python traceback."""

    def __init__(self, opener: str, thread: str) -> None:
        self.over = False
        self._block = tracebacks.TracebackBlock(opener, thread)
        self._headless = False
        self._unlabelled = False
        """True once a frame came without the label that its head has."""
        self._sure = False
        """True where frames alone can only be an uncaught exception's."""
        self._dated: Optional[bool] = None
        """Whether its own lines bear a time: where none does, one behind the message that does is a logger's."""

    @classmethod
    def headless(cls, line: Line, front: Optional[line_prefixes.LinePrefix] = None) -> "Exceptional":
        """One whose beginning is missing: a log that was cut, or Python's report of a syntax error."""
        block = cls("", "")
        block._block.fronted(front)
        block._headless = True
        block._sure = line.number <= _AT_HEAD or line.stream.rank is not None
        block.take(line)
        return block

    def goes_on(self, text: str) -> bool:
        """Whether a line without a label, right after one that has one, may be the traceback's."""
        self._unlabelled = self._unlabelled or bool(text.startswith('  File "') and exceptions.FRAME.match(text))
        return self._unlabelled

    def take(self, line: Line) -> bool:
        """Whether the line belongs to the traceback."""
        self._dated = line.at is not None if self._dated is None else self._dated
        if line.at is not None and not self._dated and self._block.message:
            self.over = True
            return False
        taken = self._block.take(line.text)
        self.over = self._block.over
        return taken

    def end(self) -> Outcome:
        """The exception."""
        said = self._block.end()
        enough = self._block.message or self._block.chain or (self._sure and self._block.frames > 1)
        if said is not None and self._headless and not enough and self._block.frames > 1:
            said.data.update(told="stack", message=tracebacks.MIDDLE)
            return Outcome([Said("log.error", said.data)], self._block.text, "")
        if said is None or (self._headless and not enough):
            return Outcome([], "", "")
        if self._headless:
            said.data["cut"] = True
            said.data["headless"] = True
        return Outcome([said], self._block.text, self._block.chain)


class TextBlock(Protocol):
    """Takes the texts of lines until it is over; says one thing at most."""

    over: bool

    @property
    def text(self) -> str:
        """What it took, bounded."""

    def take(self, text: str) -> bool:
        """Whether the line belongs to it."""

    def end(self) -> Optional[Said]:
        """What it says."""


class Plain:
    """A dump of faulthandler, a table of nccl-tests, frames of C++: over at the first line that is none of it."""

    def __init__(self, block: TextBlock) -> None:
        self.over = False
        self._block = block

    def take(self, line: Line) -> bool:
        """Whether the line belongs to the block."""
        taken = self._block.take(line.text)
        self.over = self._block.over
        return taken

    def end(self) -> Outcome:
        """The event."""
        said = self._block.end()
        return Outcome([] if said is None else [said], self._block.text, "")


class Failures:
    """The entries of a ChildFailedError."""

    def __init__(self, now: float, script: str, opener: str) -> None:
        self.over = False
        self._strangers = 0
        self._block = ElasticBlock(now, script, opener)
        self._text: List[str] = [opener]

    def take(self, line: Line) -> bool:
        """Whether the line belongs to the block."""
        taken = self._block.take(line.text, line.number)
        if taken and len(self._text) < 80:
            self._text.append(line.text)
        self._strangers = 0 if taken else self._strangers + 1
        self.over = self._strangers > 2
        return taken

    def end(self) -> Outcome:
        """The events of all entries, and what their exceptions say of ranks that differ."""
        told = self._block.end()
        raised = [said for said in told if said.kind == "python.exception"]
        differing = [
            which._replace(at=said.at, rank=said.rank, host=said.host, line=said.line, text=said.text)
            for said in raised
            for which in mismatch.read(str(said.data.get("message", "")).replace("\n", " "))
        ]
        return Outcome([*told, *differing], "\n".join(self._text)[:4000], "")


class FailedCollective:
    """The Python stack that torch recorded when the collective that timed out was called."""

    def __init__(self) -> None:
        self.over = False
        self._frames: List[Tuple[str, int, str]] = []
        self._text: List[str] = ["Stack trace of the failed collective:"]

    def take(self, line: Line) -> bool:
        """Whether the line is one of its frames."""
        frame = _FAILED_FRAME.match(line.text)
        self.over = frame is None
        if frame is not None and len(self._frames) < 200:
            self._frames.append((frame.group("file"), int(frame.group("line")[:9]), frame.group("function")))
            self._text.append(line.text)
        return frame is not None

    def end(self) -> Outcome:
        """The event."""
        if not self._frames:
            return Outcome([], "", "")
        data = exceptions.framed(list(reversed(self._frames)))
        data.pop("launcher", None)
        return Outcome([Said("torch.failed_collective", data)], "\n".join(self._text)[:4000], "")


def opened(line: Line, now: float, script: str, thread: str) -> Optional[OpenBlock]:
    """The block that a line opens; None when it opens none. ``script`` and ``thread`` were named just before it."""
    text = line.text
    if tracebacks.OPENER.search(text):
        return Exceptional(text, thread)
    if text.rstrip().endswith(" last):") and tracebacks.HEAD.endswith(text.strip()):
        return Exceptional(text.strip(), thread)  # the first half stands elsewhere
    error = fatal.FATAL.search(text)
    if error is not None:
        return Plain(FatalBlock(error.group("error"), line_prefixes.before(text, "Fatal Python error")))
    front = line_prefixes.before_frame(text)
    if exceptions.FRAME.match(text) or front is not None:
        return Exceptional.headless(line, front)
    if ELASTIC.match(text):
        return Failures(now, script, text)
    if ENTRY.match(text):
        failures = Failures(now, script, "")
        failures.take(line)
        return failures
    if perf.HEADER.match(text):
        return Plain(perf.TableBlock(text))
    if native.FRAME.match(text) or native.ORIGIN.match(text):
        stack = Plain(native.NativeStack())
        stack.take(line)
        return stack
    return FailedCollective() if _FAILED_STACK.search(text) else None
