"""Rules for the end of a process, whichever program reports it: signals, aborts, host limits; and exceptions' lines."""

from __future__ import annotations

import re
from typing import Match, Optional

from collectors.node.logs import exceptions
from collectors.node.logs.rule import Data, Example, Rule


def _ended(match: "Match[str]", data: Data) -> Optional[Data]:
    """Add the last message of the process, and whether it is a consequence of another process's end."""
    thrown, words = data.pop("thrown", None), data.pop("words", None)
    what = f"{thrown}: {words}" if thrown and words else str(thrown or data.get("what") or match.string)
    data["what"] = what.strip()[:1000]
    return dict(data, consequence=True) if re.search(exceptions.CONSEQUENCE, what) else data


def _host(match: "Match[str]", data: Data) -> Optional[Data]:
    """Reject NCCL's warnings, which have their own rules: memory of an HCA is not the host's memory."""
    return None if "NCCL WARN" in match.string else data


def _raised(_: "Match[str]", data: Data) -> Optional[Data]:
    """Fields of an exception from its last line alone."""
    return {**exceptions.headline(str(data.pop("line"))), **data}


RULES = (
    Rule("process.signal", "terminate called",
         "terminate called (?:after throwing an instance of '(?P<thrown>[^']*)'|without an active exception"
         r"|recursively)(?:\s+what\(\):\s*(?P<words>[^\n]{0,600}))?",
         Example("terminate called after throwing an instance of 'std::system_error'\n  what():  Transport endpoint"
                 " is not connected", {"signal": "ABRT", "consequence": True,
                  "what": "std::system_error: Transport endpoint is not connected"},
                 "libstdc++ vterminate.cc"), {"signal": "ABRT"}, read=_ended,
         begins=r"terminate called after throwing an instance of '[^']*'\s*$"),
    Rule("process.signal", "Segmentation fault|Bus error|Aborted|Illegal instruction|Floating point exc|Caught signal"
         "|received signal SIG|SIGSEGV|SIGBUS|SIGABRT",
         r"(?:^|(?<!\))[:\s\d*])(?P<signal>Segmentation fault|Bus error|Aborted|Illegal instruction|Floating point "
         r"exception)\*{0,2}(?:\s*\(core dumped\)|\s{2,}|\.?\s{0,4}$)|Signal: (?P<signal_2>Segmentation fault|Bus error"
         r"|Aborted)|Caught signal (?P<signal_3>11|7|6)\b|(?:received signal |\*\*\* )(?P<signal_4>SIG(?:SEGV|BUS"
         r"|ABRT))|(?P<signal_5>SIGABRT) \(@",
         Example("[n7:231567] Signal: Segmentation fault (11)", {"signal": "SEGV"}, "bash, glibc, Open MPI, UCX, gdb")),
    Rule("process.signal", "Killed|Terminated",
         r"(?:^|line \d{1,6}:\s{1,8}\d{1,9} |\s\d{1,9} |\d: |[\])>|:] {0,2}|rank[ =]\d{1,6} )"
         r"(?P<signal>Killed|Terminated)(?:\s{2,}.*|\s*)$",
         Example("run.sh: line 12:  4711 Killed                  python train.py", {"signal": "KILL"}, "bash")),
    Rule("python.fatal", "Fatal Python error", r"Fatal Python error: (?P<error>[^\r\n]*)",
         Example("Fatal Python error: Segmentation fault", {"error": "Segmentation fault"}, "CPython faulthandler")),
    Rule("host.open_files", "Too many open files|items of ancdata", "Too many open files|received 0 items of ancdata",
         Example("OSError: [Errno 24] Too many open files: '/data/shard-7'", {}, "Linux EMFILE"), read=_host),
    Rule("host.processes", "temporarily unavailable|can't start new thread|RLIMIT_NPROC|unable to create native thread",
         r"(?:pthread_create|[Tt]hread creation|thread constructor|\bfork|\bclone)\b[^\r\n]{0,80}?Resource temporarily "
         r"unavailable|can't start new thread|RLIMIT_NPROC \d{1,9} current|unable to create native thread"
         r"|Resource temporarily unavailable[^\r\n]{0,40}(?:pthread_create|thread|fork)",
         Example("OpenBLAS blas_thread_init: RLIMIT_NPROC 4096 current, 4096 max", {},
                 "Linux EAGAIN; OpenBLAS, CPython"), read=_host),
    Rule("host.memory", "annot allocate memory|MemoryError|bad_alloc|memory allocation of|DefaultCPUAllocator|running"
         " low on memory|memory pressure|Memory on the node",
         r"(?:Cannot allocate memory|\b(?:RayOutOf)?MemoryError\b|std::bad_alloc|memory allocation of \d+ bytes failed"
         r"|DefaultCPUAllocator: (?:can't allocate|not enough) memory|node running low on memory|(?P<error>\d{1,6} "
         r"Workers [^\n]{1,30}killed due to memory pressure)(?: \(OOM\)[^\n]{0,80} at\s{1,4}node \(ID: \w{1,80}, IP: "
         r"(?P<by_host_2>[\w.:-]{3,80})\))?|\bMemory on the node \(IP: (?P<by_host>[\w.:-]{3,80}), ID: \w{1,80}\) "
         r"where the (?:task|actor|lease))(?:[^\n]{0,120}?tried to allocate (?P<tried>\d+) bytes)?",
         Example("DefaultCPUAllocator: can't allocate memory: you tried to allocate 244470272 bytes. Error code 12",
                 {"tried": 244470272}, "Linux ENOMEM; c10/core/impl/alloc_cpu.cpp; ray node_manager.cc"), read=_host,
         begins=r"killed due to memory pressure[^\n]{0,80} at\s*$"),
    Rule("host.shared_memory", "shared memory|unable to |No space left on device",
         "(?:out of|insufficient) shared memory|unable to (?:open|resize|write to file|mmap)[^\n]{0,120}?(?:shared "
         "memory|/torch_|/dev/shm)|No space left on device[^\n]{0,80}?/dev/shm",
         Example("unable to write to file </torch_", {}, "torch csrc/StorageSharing.cpp"), read=_host),
    Rule("python.exception", "Error: |Exception: ",
         r"^(?:\[?(?:ERROR|[Ee]rror|CRITICAL|FATAL|E)\]?[ :-]{0,8}){0,2}"
         r"(?P<line>[A-Za-z_][\w.]*(?:Error|Exception): (?!module compiled against )\S.*)$",
         Example("RuntimeError: shard 3 is empty", {"type": "RuntimeError", "message": "shard 3 is empty"},
                 "any Python program: an exception's last line without its traceback"), read=_raised),
    Rule("log.error", "Error: |Exception: |Error(|Exception(|std::",
         r"(?<![\w.\"'`])(?P<line>(?:[A-Za-z_][\w.]{0,120}(?:Error|Exception)|std::\w{3,24}|c10::\w{3,30}Error)"
         r"(?:\(\w{1,60}\))?: [^\r\n]{2,600})",
         Example("worker failed with ValueError: bad shard 7",
                 {"type": "ValueError", "message": "bad shard 7"}, "any Python program"), read=_raised),
    Rule("log.error", "code|Code|status|Status|signal",
         r"\b(?:[Ee]xit(?:ed|s|ing)?|[Tt]erminated|returned|[Ff]ailed|died|crashed|ended)\b[^\r\n]{0,60}?\b(?:[Cc]ode"
         r"|[Ss]tatus|returncode|exitcode|exit_code)\b[\s:='\"(]{1,6}(?P<exitcode>-?[1-9]\d{0,3})\b|(?:[Kk]illed"
         r"|[Tt]erminated|[Dd]ied|[Ee]xited|[Cc]rashed)\b[^\r\n]{0,40}?\bsignal\b[\s:=#(]{0,4}"
         r"(?P<signal>\d{1,2}\b|SIG[A-Z]{2,6})",
         Example("trainer on host n7 exited with code 3", {"exitcode": 3}, "any launcher")),
)  # fmt: skip
"""Rules of ``log.error`` apply only to lines that match no other rule."""
