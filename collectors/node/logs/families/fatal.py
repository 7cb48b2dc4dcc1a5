"""Deaths that are no Python exceptions: faulthandler's dumps, C++ terminate, a shell's words for a signal."""

from __future__ import annotations

from typing import Iterator, List, Optional, Tuple

from collectors.node import late_re as re
from collectors.node.logs.lines import line_prefixes, signals
from collectors.node.logs.records import exceptions
from collectors.node.logs.said import Data, Family, Said

_TERMINATE = re.compile(
    r"terminate called (?:after throwing an instance of '(?P<what>[^']*)'|without an active exception|recursively)"
)
_UNHANDLED = re.compile(r"Unhandled exception: (?P<type>[\w:]{1,120})\. what\(\): (?P<what>[^\r\n]{0,600})")
"""Ray's word of the same, with the type's mangled name."""
_HEAP = re.compile(
    r"(?:^|[\s'*:])(?P<what>free\(\): (?:invalid|double free|corrupted)[\w ()]{0,40}"
    r"|double free or corruption[\w !()]{0,30}"
    r"|malloc\(\): [\w ()]{4,60}|malloc_consolidate\(\): [\w ]{4,60}|munmap_chunk\(\): invalid pointer"
    r"|realloc\(\): invalid [\w ]{2,30}|corrupted (?:size vs\. prev_size|double-linked list)[\w ]{0,30}"
    r"|[Aa]ttempt to free invalid pointer|stack smashing detected)"
)
"""glibc's and tcmalloc's last words of a process whose heap or stack is broken."""
_MODULES = "Extension modules: "
"""With this the dump of a fatal error ends; dumps on request have no such line."""
_NAMED = re.compile(
    r"(?:[Pp]rocess finished with exit code \d{1,3} \(interrupted by signal \d{1,2}: |received signal "
    r"|\*\*\* (?=SIG\w+ \(@))"
    r"SIG(?P<signal>[A-Z]{2,6})"
)
"""An IDE's word, a debugger's, and that of absl's handler."""
_NUMBERED = re.compile(r"\bCaught signal number (?P<number>\d{1,2}) ")
"""PETSc's word of it."""
_CHECK = re.compile(r"\.(?:cc|cpp|cu|h|hpp):\d{1,6}\] (?P<what>Check failed: [^\r\n]{1,300})")
"""A condition of C++ code that does not hold: the process aborts."""
_ASSERTED = re.compile(
    r"\.(?:c|cc|cpp|cxx|h|hpp):\d{1,6}: [^\r\n]{1,600}?: (?P<what>Assertion [`'][^\r\n]{1,300}' failed)\.?\s{0,4}$"
)
"""glibc's word of an assertion of C or C++ that does not hold."""
_WHAT = re.compile(r"\bwhat\(\):\s*(?P<what>.*)", re.S)
_WORDS: Tuple[Tuple[str, "re.Pattern[str]"], ...] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        (
            "SEGV",
            (
                r"(?:^|[:\s\d*])Segmentation fault\*{0,2}(?:\s*\(core dumped\)|\s|\.|$)|Signal: Segmentation fault"
                r"|Caught signal 11\b|\bSignal 11 received by (?:node|process) \d"
            ),
        ),
        (
            "BUS",
            (
                r"(?:^|\s)Bus error(?:\s*\(core dumped\)|\s{2,}|$)|Signal: Bus error|Caught signal 7\b"
                r"|\bSignal 7 received by (?:node|process) \d"
            ),
        ),
        (
            "ABRT",
            (
                r"(?:^|(?<!\))\s)Aborted(?:\s*\(core dumped\)|\s{4,}|$)|Signal: Aborted|\*\*\* Aborted at|SIGABRT \(@"
                r"|Caught signal 6\b|\bSignal 6 received by (?:node|process) \d"
            ),
        ),
        ("ILL", r"(?:^|[:\s\d])Illegal instruction(?:\s*\(core dumped\)|$)|Signal: Illegal instruction"),
        ("FPE", r"Floating point exception(?:\s*\(core dumped\)|$)"),
        (
            "KILL",
            (
                r"line \d{1,6}:\s{1,8}\d{1,9} Killed\b"
                r"|(?:^|\s\d+ |\d: |line \d+:\s+\d+ |[\])>|:] {0,2}| - |rank[ =]\d{1,6} )Killed(?:\s{2,}.*|\s*)$"
                r"|^Killed[a-z0-9%|#][^\r\n/]{0,60}\d{1,9} {0,2}/ {0,2}\d{1,9}(?:\s|$)"
            ),
        ),
        ("TERM", r"(?:^|\s\d+ |line \d+:\s+\d+ )Terminated(?:\s{2,}.*|\s*)$"),
    )
)
_OF_SRUN = re.compile(r"^\s{0,4}srun: error: [\w.-]{1,120}: tasks? \d")
"""Slurm's word about its tasks, which its own reader takes."""
OF_X = re.compile(r"(?:^|\] )\((?:EE|WW|II)\) ")
"""A display server's own log: no rank ends with it."""
_HELPER = re.compile(
    r": line \d{1,7}: {1,8}\d{1,9} (?:Killed|Terminated) {1,40}(?:\( {0,2})?"
    r"(?:while|until|sleep|tail|watch|(?:\S{1,60}/)?nvidia-smi|vmstat|iostat|mpstat|sar|dstat|free|top|ping)\b"
)
"""A loop or a monitor in the background of a script, which ends it itself when the work is done."""
FATAL = re.compile(r"Fatal Python error: (?P<error>[^\r\n]*)")
_THREAD = re.compile(r"^(?:Current thread|Thread) 0x[0-9a-f]+.*\(most recent call first\):")
_FRAME = re.compile(r'^\s*File "(?P<file>[^"]*)", line (?P<line>\d+) in (?P<function>.*)$')


def read(text: str) -> Iterator[Said]:
    """Events of one line."""
    terminate = _TERMINATE.search(text)
    if terminate is not None:
        message = _WHAT.search(text)
        thrown = terminate.group("what") or "terminate called"
        what = thrown + (": " + message.group("what").strip()[:1000] if message else "")
        data: Data = {"signal": "ABRT", "what": what}
        if exceptions.follows(what):
            data["consequence"] = True
        yield Said("process.signal", data)
        return
    if "ray::TerminateHandler()" in text:
        yield Said("process.signal", {"signal": "ABRT", "what": "terminate called, its message is cut off"})
        return
    unhandled = _UNHANDLED.search(text)
    if unhandled is not None:
        what = "c10::Error" if "c10" in unhandled.group("type") else unhandled.group("type")
        yield Said("process.signal", {"signal": "ABRT", "what": f"{what}: {unhandled.group('what').strip()}"})
        return
    heap = _HEAP.search(text)
    if heap is not None:
        yield Said("process.signal", {"signal": "ABRT", "what": heap.group("what").strip(), "heap": True})
        return
    if text.startswith(_MODULES):
        yield Said("python.fatal", {"error": "Fatal Python error, its beginning is cut off", "cut": True})
        return
    check = _CHECK.search(text)
    if check is not None:
        yield Said("process.signal", {"signal": "ABRT", "what": check.group("what"), "heap": True})
        return
    held = _ASSERTED.search(text) if "block: [" not in text else None
    if held is not None:
        yield Said("process.signal", {"signal": "ABRT", "what": held.group("what"), "heap": True})
        return
    numbered = _NUMBERED.search(text)
    told = _told(text) if numbered is None else signals.name(numbered.group("number"))
    signal = "" if any(no.search(text) for no in (_OF_SRUN, OF_X, _HELPER)) else told
    if signal:
        yield Said("process.signal", {"signal": signal, "what": text.strip()[:200]})


def _told(text: str) -> str:
    """The signal that a line names, or describes; empty without one."""
    named = _NAMED.search(text)
    if named is not None:
        return named.group("signal")
    if "killed by signal" in text or "Fatal Python error" in text:
        return ""
    return next((name for name, pattern in _WORDS if pattern.search(text)), "")


class FatalBlock:
    """A dump of faulthandler: "Fatal Python error" and the stacks of all threads, innermost frame first."""

    def __init__(self, error: str, front: Optional[line_prefixes.LinePrefix] = None) -> None:
        self.over = False
        self._error = error
        self._front = front
        """What may stand in front of all its lines."""
        self._current: Optional[List[Tuple[str, int, str]]] = None
        self._done: List[Tuple[str, int, str]] = []
        self._lines: List[str] = ["Fatal Python error: " + error]

    def take(self, text: str) -> bool:
        """Whether the line belongs to the dump."""
        bare = None if self._front is None else self._front.off(text)
        text = text if bare is None else bare
        frame = _FRAME.match(text)
        taken = True
        if frame is not None:
            if self._current is not None and len(self._current) < 200:
                self._current.append((frame.group("file"), int(frame.group("line")[:9]), frame.group("function")))
        elif _THREAD.match(text):
            self._current = [] if text.startswith("Current thread") and not self._done else None
            if self._current is not None:
                self._done = self._current
        elif text.strip() and not text.startswith(
            (" ", "Python runtime state", "Extension modules", "<no Python frame>")
        ):
            taken = False
            self.over = True
        if taken and len(self._lines) < 60:
            self._lines.append(text)
        return taken

    @property
    def text(self) -> str:
        """The beginning of the dump."""
        return "\n".join(self._lines)[:4000].rstrip()

    def end(self) -> Said:
        """The event."""
        data: Data = {"error": self._error}
        if self._done:
            data.update(exceptions.framed(list(reversed(self._done))))
            data.pop("launcher", None)
        return Said("python.fatal", data)


FAMILY = Family(
    "fatal",
    (
        b"terminate called",
        b"Unhandled exception: ",
        b"ray::TerminateHandler()",
        b"Segmentation fault",
        b"Bus error",
        b"Aborted",
        b"SIGABRT",
        b"Floating point exc",
        b"Illegal instruction",
        b"Caught signal ",
        b"Killed",
        b"Terminated",
        b"free(): ",
        b"double free",
        b"malloc(): ",
        b"malloc_consolidate",
        b"munmap_chunk",
        b"realloc(): ",
        b"corrupted size",
        b"corrupted double",
        b"free invalid pointer",
        b"stack smashing",
        b"Extension modules: ",
        b"] Check failed: ",
        b": Assertion ",
        b"*** SIG",
        b"interrupted by signal",
        b"received signal SIG",
        b" received by ",
    ),
    read,
    re.compile(
        r"terminate called after throwing an instance of '[^']*'\s*$"
        r"|\breceived signal SIG\w{2,6}(?:/SIG\w{2,6})?\(\d{1,2}\)\.\s{0,4}$"
    ),
)
