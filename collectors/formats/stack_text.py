"""Saved stacks of py-spy, gdb, eu-stack, pstack and Python's faulthandler.

A text may hold the stacks of several processes, one after another. A new process starts at a line that names it, at a
repeated thread number of gdb, or at a frame 0 without a line for its thread::

    Process 8841: python train.py                  py-spy
    PID 8841 - process                             eu-stack
    # rank 1 on node3                              a heading with a rank
    Timeout (0:05:00)!                             faulthandler
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from collectors.formats import BadFormat
from collectors.samples.stacks import Frame, StackDump, ThreadStack

_LONGEST = 2000
"""Most characters that are read of a line."""
_NAME = 200
"""Most characters of a native function's name: names of templates have kilobytes."""

_PY_SPY = re.compile(r"Process (?P<pid>\d{1,10}): ?")
_PROCESSES = (
    _PY_SPY,
    re.compile(r"PID (?P<pid>\d{1,10}) - (?:process|core)"),  # eu-stack
    re.compile(r"Timeout \(\d+:\d\d:\d\d(?:\.\d+)?\)!"),  # faulthandler
    re.compile(r"(?:[#=*\[-].{0,80}?\b)?(?i:rank)[ :=#]{0,3}(?P<rank>\d{1,7})\b.{0,80}$"),
)
_THREADS = (
    re.compile(  # py-spy
        r"Thread (?P<id>0x[0-9A-Fa-f]{1,16}|\d{1,18}) ?(?:\((?P<state>(?:idle|active)[^)]*)\))?"
        r"(?:: \"(?P<name>.*)\")?\s*$"
    ),
    re.compile(  # gdb, pstack
        r"Thread (?P<number>\d{1,7}) \((?:Thread 0x[0-9a-f]+ \()?LWP (?P<id>\d{1,10})\)?(?: \"(?P<name>[^\"]*)\")?\)?"
        r".{0,40}:"
    ),
    re.compile(r"TID (?P<id>\d{1,10}):"),  # eu-stack
    re.compile(  # faulthandler
        r"(?:Current thread|Thread) (?P<id>0x[0-9a-f]{1,16})(?: \[(?P<name>[^\]]*)\])? \(most recent call first\):"
    ),
)
_FRAMES = (
    re.compile(r"\s{4,}(?P<name>(?!\d+: )\S.*?) \((?P<file>[^()]*?)(?::(?P<line>\d{1,9}))?\)\s*$"),  # py-spy
    re.compile(r"\s*File \"(?P<file>[^\"]+)\", line (?P<line>\d{1,9}|\?\?\?) in (?P<name>\S+)"),  # faulthandler
    re.compile(r"#\d+ +(?:0x[0-9a-f]+ in |0x[0-9a-f]+ )?(?P<native>[^\s(].*)$"),  # gdb, eu-stack
)
_FIRST_FRAME = re.compile(r"#0 ")
_ERROR = re.compile(r"(?:Error: (?P<error>.*)|(?P<denied>Permission Denied: .*))$")


class SavedStack(NamedTuple):
    """The stacks of one process, and its rank if the text names one."""

    rank: int | None
    dump: StackDump


@dataclass
class _Process:
    """One process, while the text is read."""

    pid: int
    """At most 0 while it is unknown, unless the caller gave it."""
    rank: int | None = None
    error: str = ""
    threads: list[ThreadStack] = field(default_factory=list)
    numbers: set[str] = field(default_factory=set)
    """gdb's numbers of its threads."""


def looks_like(head: str) -> bool:
    """Whether a text with this beginning has stacks: a line of a thread and then a frame, or a frame 0 and then one."""
    if "Fatal Python error" in head:
        return False  # a crash: the rules for logs find more in it
    above = ""
    for line in (row[:_LONGEST] for row in head.splitlines()):
        if _match(_FRAMES, line) and (_match(_THREADS, above) or _FIRST_FRAME.match(above)):
            return True
        if _PY_SPY.match(above) and (line.startswith(("Python v", "Thread ")) or _ERROR.match(line)):
            return True
        above = line if line.strip() else above
    return False


def read(saved: str, *, at: float, pid: int = 0) -> list[SavedStack]:
    """Parse the processes of a text. ``pid``: for the first unnamed process. Raises :class:`BadFormat` without any."""
    processes: list[_Process] = []

    def begun() -> _Process:
        """The newest process, if it has no thread and no error yet; else a new process."""
        if not processes or processes[-1].threads or processes[-1].error:
            processes.append(_Process(pid - len(processes)))
        return processes[-1]

    open_thread = False
    for line in (row[:_LONGEST] for row in saved.splitlines()):
        if (thread := _match(_THREADS, line)) is not None:
            again = bool(processes) and thread.groupdict().get("number", "") in processes[-1].numbers
            _add_thread(processes[-1] if processes and not again else begun(), thread.groupdict())
            open_thread = True
        elif (heading := _match(_PROCESSES, line)) is not None:
            process, named = begun(), heading.groupdict()
            process.pid = int(named.get("pid") or process.pid)
            process.rank = int(named["rank"]) if named.get("rank") else process.rank
            open_thread = False
        elif (error := _ERROR.match(line)) is not None and processes:
            processes[-1].error = f"failed: {error['error'] or error['denied']}"
        elif (frame := _match(_FRAMES, line)) is not None:
            if not open_thread or (_FIRST_FRAME.match(line) and processes[-1].threads[-1].frames):
                process, open_thread = begun(), True
                process.threads.append(ThreadStack(process.pid, process.pid, "", False, False, []))
            processes[-1].threads[-1].frames.append(_frame(frame.groupdict()))
    found = [SavedStack(process.rank, _dump(process, at)) for process in processes if process.threads or process.error]
    if not found:
        raise BadFormat("no stacks: no thread with frames")
    return found


def _match(patterns: tuple[re.Pattern[str], ...], line: str) -> re.Match[str] | None:
    return next((found for pattern in patterns if (found := pattern.match(line))), None)


def _add_thread(process: _Process, fields: dict[str, str | None]) -> None:
    """Add a thread. Its kernel number is the pid for thread 1 of gdb, and for the first thread of other tools."""
    text = fields["id"] or "0"
    number, in_hex = int(text, 0), text.startswith("0x")  # in hex: Python's number, not the kernel's
    if not in_hex and process.pid <= 0 and fields.get("number", "" if process.threads else "1") == "1":
        process.pid = number
    process.numbers |= {fields["number"] or ""} if "number" in fields else set()
    state = fields.get("state") or ""
    process.threads.append(
        ThreadStack(number, None if in_hex else number, fields.get("name") or "", "active" in state, "gil" in state, [])
    )


def _frame(fields: dict[str, str | None]) -> Frame:
    if native := fields.get("native"):
        name, _, library = native.rpartition(" from ") if " from " in native else native.partition(" - ")
        return Frame(name.partition(" (")[0][:_NAME], library.strip(), 0, True)
    line = fields.get("line")
    number = int(line) if line is not None and line.isdecimal() else 0
    return Frame(fields["name"] or "", fields["file"] or "", number, line is None)


def _dump(process: _Process, at: float) -> StackDump:
    return StackDump(
        pid=process.pid, rank_pid=process.pid, at=at, method="none" if process.error else "blocking", state="",
        wchan="", syscall="", cpu=0.0, error=process.error, threads=process.threads,
    )  # fmt: skip
