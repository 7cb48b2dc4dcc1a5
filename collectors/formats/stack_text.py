"""Stacks that somebody saved: of py-spy, gdb, eu-stack or pstack, and Python's faulthandler.

A text may hold the stacks of several processes, one after another, each below a line that names it::

    Process 8841: python train.py                  py-spy
    # eu-stack -p 8841   (rank 1)                  a remark, a prompt with the command, or a heading with a rank
    PID 8841 - process                             eu-stack
    #0  0x00007f11 in poll () from libc.so.6       gdb's bt without any heading: frame 0 begins a process
    Timeout (0:05:00)!                             faulthandler
"""

from __future__ import annotations

import re
from typing import NamedTuple

from collectors.formats import BadFormat
from collectors.samples.stacks import Frame, StackDump, ThreadStack

PROCESSES, THREADS, FRAMES = 4096, 20_000, 5000
"""Processes of one text, threads of a process, frames of a thread that are read."""
_LONGEST = 2000
"""Characters of a line that are read."""
_NAME = 200
"""Characters of a native function's name: templates run to kilobytes."""

_PY_SPY = re.compile(r"(?:\[?\w*\]?:? ?)?Process (?P<pid>\d{1,10}): ?")
_HEADINGS = (
    _PY_SPY,
    re.compile(r"PID (?P<pid>\d{1,10}) - (?:process|core)"),  # eu-stack
    re.compile(r"Attaching to (?:program: .*, )?process (?P<pid>\d{1,10})"),  # gdb
    re.compile(r"Timeout \(\d+:\d\d:\d\d(?:\.\d+)?\)!"),  # faulthandler
    re.compile(  # a command at a prompt, or in a remark
        r"(?:[#$>]|\S{1,80}[#$]) .{0,80}\b(?:eu-stack|pstack|gstack|gdb|py-spy)\b.{0,200}? "
        r"(?:-p |--pid )?(?P<pid>\d{1,10})\b"
    ),
    re.compile(r"[#=\-*\[ ]{0,8}(?i:rank) ?[:=#]? ?\d{1,7}\b.{0,80}$"),
)
_RANK = re.compile(r"\b(?i:rank)[ :=#]{0,2}(?P<rank>\d{1,7})\b")
_THREAD_HEADINGS = (
    re.compile(  # py-spy
        r"Thread (?P<id>0x[0-9A-Fa-f]{1,16}|\d{1,18}) ?(?:\((?P<state>(?:idle|active)[^)]*)\))?"
        r"(?:: \"(?P<name>.*)\")?\s*$"
    ),
    re.compile(  # gdb, pstack
        r"Thread (?P<number>\d{1,7}) (?:\"(?P<name>[^\"]*)\" )?\((?:Thread 0x[0-9a-f]+ \()?LWP (?P<id>\d{1,10})\)?"
        r"(?: \"(?P<comm>[^\"]*)\")?\)?.{0,40}:"
    ),
    re.compile(r"TID (?P<id>\d{1,10}):"),  # eu-stack
    re.compile(  # faulthandler
        r"(?:Current thread|Thread) (?P<id>0x[0-9a-f]{1,16})(?: \[(?P<name>[^\]]*)\])? \(most recent call first\):"
    ),
)
_FRAMES = (
    re.compile(r"\s{4,}(?P<name>\S.*?) \((?P<file>[^()]*?)(?::(?P<line>\d{1,9}))?\)\s*$"),  # py-spy
    re.compile(  # faulthandler, gdb's py-bt
        r"\s*(?:#\d+ +)?File \"(?P<file>[^\"]+)\", line (?P<line>\d{1,9}|\?\?\?),? in (?P<name>\S+)"
    ),
    re.compile(  # gdb's py-bt
        r"#\d+ +Frame 0x[0-9a-f]+, for file (?P<file>[^,]+), line (?P<line>\d{1,9}), in (?P<name>\S+)"
    ),
    re.compile(r"#\d+ +(?:0x[0-9a-f]+ in |0x[0-9a-f]+ )?(?P<native>[^\s(].*)$"),  # gdb, eu-stack
)
_FIRST_FRAME = re.compile(r"#0 ")
_ERROR = re.compile(r"(?:Error: (?P<error>.*)|(?P<denied>Permission Denied: .*))$")


class SavedStack(NamedTuple):
    """The stacks of one process, and its rank where the text names one."""

    rank: int | None
    dump: StackDump


def looks_like(head: str) -> bool:
    """Whether a text that begins so has stacks: a heading of a thread and a frame below it, or a frame 0 and a next."""
    if "Fatal Python error" in head:
        return False  # a crash: the log's rules say more of it
    above = ""
    for line in (row[:_LONGEST] for row in head.splitlines()):
        if _match(_FRAMES, line) and (_match(_THREAD_HEADINGS, above) or _FIRST_FRAME.match(above)):
            return True
        if _PY_SPY.match(above) and (line.startswith(("Python v", "Thread ")) or _ERROR.match(line)):
            return True
        above = line if line.strip() else above
    return False


def read(saved: str, *, at: float, pid: int = 0) -> list[SavedStack]:
    """The processes of a text. ``pid`` is for the first that names none. Raises :class:`BadFormat` when it has none."""
    reader = _StackReader(at, pid)
    for line in saved.splitlines():
        reader.line(line[:_LONGEST])
    found = [one for one in reader.processes if one.dump.threads or one.dump.error]
    if not found:
        raise BadFormat("no stacks: no thread with frames")
    return found


def _match(patterns: tuple[re.Pattern[str], ...], line: str) -> re.Match[str] | None:
    return next((found for pattern in patterns if (found := pattern.match(line))), None)


class _StackReader:
    """Reads a text line by line."""

    def __init__(self, at: float, pid: int) -> None:
        self.processes: list[SavedStack] = []
        self._at = at
        self._pid = pid
        self._named = False
        """The newest process was named by a heading below which no frame has come yet."""
        self._frames: list[Frame] | None = None
        self._numbers: set[str] = set()
        """Numbers that gdb gave to threads of this process: one that comes again is of the next process."""

    def line(self, line: str) -> None:
        """Take one line."""
        if (thread := _match(_THREAD_HEADINGS, line)) is not None:
            self._thread(thread)
        elif (heading := _match(_HEADINGS, line)) is not None:
            self._process(heading, _RANK.search(line))
        elif (error := _ERROR.match(line)) is not None:
            self._fail(error["error"] or error["denied"])
        elif (frame := _match(_FRAMES, line)) is not None:
            self._frame(frame.groupdict(), begins=_FIRST_FRAME.match(line) is not None)

    def _process(self, heading: re.Match[str], rank: re.Match[str] | None) -> None:
        pid = int(heading.groupdict().get("pid") or 0)
        if not self._named:
            self._begin(pid or self._pid - len(self.processes))
        number = int(rank["rank"]) if rank is not None else self.processes[-1].rank
        known = self.processes[-1].dump
        # of one that was begun by a heading without a number the next heading tells it
        dump = known._replace(pid=pid, rank_pid=pid) if pid else known
        self.processes[-1] = SavedStack(number, dump)
        self._named = True

    def _begin(self, pid: int) -> None:
        if len(self.processes) >= PROCESSES:
            raise BadFormat(f"stacks of more than {PROCESSES:,} processes")
        self.processes.append(SavedStack(None, _dump(pid, self._at, [])))
        self._frames = None
        self._numbers = set()

    def _thread(self, found: re.Match[str]) -> None:
        told = found.groupdict()
        by_kernel = not told["id"].startswith("0x")  # gdb, eu-stack and newer py-spy: the main thread has the pid
        number = int(told["id"], 10 if by_kernel else 16)
        by_gdb = told.get("number") or ""
        if not self.processes or by_gdb in self._numbers:
            self._begin(self._pid - len(self.processes))
        self._numbers |= {by_gdb} - {""}
        self._named = False
        rank, dump = self.processes[-1]
        if by_kernel and dump.pid <= 0 and told.get("number", "1" if not dump.threads else "") == "1":
            self.processes[-1] = SavedStack(rank, dump._replace(pid=number, rank_pid=number))
        state = told.get("state") or ""
        threads = self.processes[-1].dump.threads
        self._frames = []
        if len(threads) < THREADS:
            name = told.get("name") or told.get("comm") or ""
            threads.append(
                ThreadStack(
                    number, number if by_kernel else None, name, "active" in state, "gil" in state, self._frames
                )
            )

    def _frame(self, told: dict[str, str | None], *, begins: bool) -> None:
        if self._frames is None or (begins and self._frames):
            if not self._named:
                self._begin(self._pid - len(self.processes))
            self._named = False
            self._frames = []
            dump = self.processes[-1].dump
            dump.threads.append(ThreadStack(dump.pid, dump.pid, "", False, False, self._frames))
        if len(self._frames) < FRAMES:
            self._frames.append(_frame_of(told))

    def _fail(self, why: str) -> None:
        if self.processes:
            rank, dump = self.processes[-1]
            self.processes[-1] = SavedStack(rank, dump._replace(error=f"failed: {why}", method="none"))


def _frame_of(told: dict[str, str | None]) -> Frame:
    if native := told.get("native"):
        name, _, library = native.rpartition(" from ") if " from " in native else native.partition(" - ")
        return Frame(name.partition(" (")[0][:_NAME], library.strip(), 0, True)
    line = told.get("line") or "0"
    number = int(line) if line.isdecimal() else 0
    return Frame((told["name"] or "")[:500], (told["file"] or "")[:1000], number, told.get("line") is None)


def _dump(pid: int, at: float, threads: list[ThreadStack]) -> StackDump:
    return StackDump(
        pid=pid, rank_pid=pid, at=at, method="blocking", state="", wchan="", syscall="", cpu=0.0, error="",
        threads=threads,
    )  # fmt: skip
