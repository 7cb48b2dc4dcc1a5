"""Last words of runtimes that abort by themselves: glog and absl, Rust, Go, MPI, and dumps whose beginning is cut off.

Formats: glog's and absl's log at level F, after which the process aborts; Rust's panic handler; Go's runtime; MPICH's
``MPIR_Handle_fatal_error`` and Open MPI's ``help-mpi-errors.txt``.
"""

from __future__ import annotations

from typing import Iterator, Optional

from collectors.node import late_re as re
from collectors.node.logs.records.exceptions import follows
from collectors.node.logs.said import Data, Family, Said, number

_FATAL_LEVEL = re.compile(
    r"^[\s:]{0,4}(?:\[[\w.-]{1,60}\] ?)?F(?:(?:20\d\d)?\d{4} \d\d:\d\d:\d\d[.\d]{0,8} {1,8}\d{1,10})? "
    r"[\w./+@-]{1,300}\.(?:cc|cpp|cxx|cu|c|h|hpp):\d{1,6}\] (?P<what>[^\r\n]{1,600})"
)
_PANIC = re.compile(
    r"^(?:.{0,60} )?thread '[^']{0,80}'(?: \(\d{1,10}\))? panicked at (?P<rust>[^\r\n]{1,600})"
    r"|^(?P<go>panic: (?!.{0,20}not syncing)[^\r\n]{1,400}|fatal error: [^\r\n]{1,200})$"
)
_MPICH = re.compile(
    r"(?:\[(?P<host>[A-Za-z][\w.-]{0,80})\] - )?Abort\(\d{1,12}\)(?: on node \d{1,7})?"
    r" \(rank (?P<rank>\d{1,7}) in comm \w{1,12}\): (?P<what>[^\r\n]{0,400})"
    r"|(?:PMGR_COLLECTIVE ERROR: rank \d{1,7} on (?P<of>[A-Za-z][\w.-]{0,80}): [^\r\n]{0,80}? Msg: )?"
    r"(?P<called>application called MPI_Abort\([^)\r\n]{0,60}\)) - process (?P<process>\d{1,7})"
    r"|(?:(?P<asserted>Assertion failed in file [^\r\n]{1,300} at line \d{1,7}: [^\r\n]{1,200})\s)?"
    r"(?:^|(?<=\s))Rank (?P<own>\d{1,7}) \[[^\]\r\n]{10,40}\] (?:\[(?P<on>[A-Za-z][\w.-]{0,80})\] )?"
    r"(?P<internal>internal ABORT)\b"
    r"|(?P<fatal>Fatal error in (?:internal_)?[A-Z]\w{2,60}:(?: [^\r\n]{0,300}|\s{0,4}$))"
    r"|^(?P<alone>Assertion failed in file [^\s]{1,300} at line \d{1,7}: [^\r\n]{1,200}?)"
    r"(?= /\S{1,200}\(| Assertion failed |\s{0,4}$)"
    r"|^(?P<failed>P?MPI_\w{1,60})\(\d{1,6}\)\.{2,60}: [^\r\n]{0,600}\) failed\s{0,8}$"
)
_OPEN_MPI = re.compile(r"\*\*\* An error occurred in (?P<call>(?:P?MPI|shmem)_\w{1,60})")
_REPORTED = re.compile(r"\*\*\* reported by process \[\d{1,12},(?P<rank>\d{1,7})\]")
_ERROR = re.compile(r"\*\*\* (?P<error>MPI_ERR_(?!ORS)\w{1,40}: [^\r\n\[]{0,200})")
_MISUSED = re.compile(
    r"\*\*\* (?P<told>The (?:P?MPI|shmem)_\w{1,60}\(\) function was called (?:before|after) [^\r\n]{1,80})"
    r"|\*\*\* Your MPI job will now abort"
)
"""Open MPI's ``help-mpi-errors``: a call before ``MPI_Init`` or after ``MPI_Finalize``."""
_LOCAL = "Local abort before MPI_INIT completed"
_GO = re.compile(r"^runtime\.(?P<how>throw|fatalthrow|sigpanic|dieFromSignal)\(0x")
_END_OF_DUMP = "*** End of error message ***"


def read(text: str) -> Iterator[Said]:
    """Events of one line: ``process.signal`` with the words as ``what``."""
    fatal, panic, mpich = _FATAL_LEVEL.search(text), _PANIC.search(text), _MPICH.search(text)
    call, error = _OPEN_MPI.search(text), _ERROR.search(text)
    if fatal is not None and not fatal.group("what").startswith("Check failed: "):
        yield _aborted(fatal.group("what"))
    elif panic is not None:
        yield _aborted(panic.group("rust") or panic.group("go"))
    elif _GO.match(text) is not None:
        yield _aborted("Go's runtime gave up (its message is cut off)")
    elif mpich is not None:
        rank = mpich.group("rank") or mpich.group("process") or mpich.group("own")
        told = next(filter(None, mpich.group("what", "called", "fatal", "asserted", "internal", "alone", "failed")))
        told += " failed" if mpich.group("failed") else ""
        host = next(filter(None, mpich.group("host", "on", "of")), "")
        yield _aborted(told, number(rank))._replace(host=host)
    elif call is not None or error is not None:
        reported = _REPORTED.search(text)
        what = error.group("error").strip() if error is not None else "an error of MPI"
        where = " in " + call.group("call") if call is not None else ""
        yield _aborted(what + where, None if reported is None else number(reported.group("rank")))
    elif (misused := _MISUSED.search(text)) is not None:
        yield _aborted(misused.group("told") or "an error of MPI")
    elif _LOCAL in text:
        yield _aborted("an error of MPI before MPI_Init was done")
    elif _END_OF_DUMP in text:
        said = _aborted("a signal, whose name is cut off")
        yield said._replace(data={**said.data, "cut": True})


def _aborted(what: str, rank: Optional[int] = None) -> Said:
    data: Data = {"signal": "ABRT", "what": what.strip(), "spoken": True}
    if follows(what):
        data["consequence"] = True
    return Said("process.signal", data, rank=rank)


FAMILY = Family(
    "aborts",
    (
        b".cc:",
        b".cpp:",
        b".cu:",
        b".h:",
        b"panicked at ",
        b"panic: ",
        b"fatal error: ",
        b"Abort(",
        b"MPI_Abort(",
        b"Fatal error in ",
        b"internal ABORT",
        b"aborting job:",
        b"Assertion failed in file ",
        b"An error occurred in ",
        b"MPI_ERR_",
        b") failed",
        b"End of error message",
        b"Local abort before",
        b" function was called ",
        b"Your MPI job will now abort",
        b"runtime.throw(",
        b"runtime.fatalthrow(",
        b"runtime.sigpanic(",
        b"runtime.dieFromSignal(",
    ),
    read,
    re.compile(
        r"^(?:\[cli_\d{1,7}\]: )?aborting job:\s{0,4}$"
        r"|Fatal error in (?:internal_)?[A-Z]\w{2,60}:\s{0,4}$"
        r"|\*\*\* An error occurred in \w{1,80}(?!.{0,2000}\*\*\* MPI_ERR_(?!ORS))"
        r"|^Assertion failed in file [^\r\n]{1,300} at line \d{1,7}: [^\r\n]{1,200}$"
    ),
)
