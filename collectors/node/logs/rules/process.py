"""How a process ends by itself, whoever prints it: signals, aborts, limits of the host; and the fatal line."""

from __future__ import annotations

import re
from typing import Match, Optional

from collectors.node.logs import exceptions
from collectors.node.logs.rule import Data, Example, Rule, number


def _ended(match: "Match[str]", data: Data) -> Optional[Data]:
    """With the words that it ended with, and whether they tell of somebody else's end."""
    what = str(data.get("what") or match.string).strip()[:1000]
    data["what"] = what
    if exceptions.follows(what):
        data["consequence"] = True
    return data


def _line(match: "Match[str]", data: Data) -> Optional[Data]:
    return dict(data, what=match.string.strip()[:200])


def _terminated(match: "Match[str]", data: Data) -> Optional[Data]:
    thrown, words = data.pop("thrown", None) or "terminate called", data.pop("words", None)
    data["what"] = "%s: %s" % (thrown, words) if words else str(thrown)
    return _ended(match, data)


_ABORT: Data = {"signal": "ABRT"}

_SPOKEN: Data = {"signal": "ABRT", "spoken": True}

_BROKEN: Data = {"signal": "ABRT", "heap": True}


_WORDS = {"segmentation": "SEGV", "bus": "BUS", "aborted": "ABRT", "illegal": "ILL", "floating": "FPE"}

_NUMBERS = {"11": "SEGV", "7": "BUS", "6": "ABRT"}


_SHELL = r"(?:^|line \d{1,6}:\s{1,8}\d{1,9} |\s\d{1,9} |\d: |[\])>|:] {0,2}|rank[ =]\d{1,6} )"


def _worded(match: "Match[str]", data: Data) -> Optional[Data]:
    word, code, name = (str(data.pop(each, "")) for each in ("word", "number", "name"))
    signal = name or _NUMBERS.get(code) or _WORDS[word.lower().partition(" ")[0]]
    return _line(match, dict(data, signal=signal))


def _signal(name: str, pattern: str, example: Optional[Example]) -> Rule:
    """A shell's, or a library's, word that a process ended by a signal."""
    return Rule("signal_" + name.lower(), "process.signal", pattern, example, {"signal": name}, read=_line)


ENDS = (
    Rule("terminate", "process.signal",
         "terminate called (?:after throwing an instance of '(?P<thrown>[^']*)'|without an active exception"
         r"|recursively)(?:\s+what\(\):\s*(?P<words>[^\n]{0,600}))?",
         Example("terminate called after throwing an instance of 'std::system_error'\n  what():  Transport "
         "endpoint is not connected",
         {"signal": "ABRT", "what": "std::system_error: Transport endpoint is not connected", "consequence": True},
         "libstdc++ vterminate.cc"), _ABORT, read=_terminated,
         begins=r"terminate called after throwing an instance of '[^']*'\s*$"),
    Rule("heap", "process.signal",
         r"(?:^|[\s'*:])(?P<what>free\(\): (?:invalid|double free|corrupted)[\w ()]{0,40}"
         r"|double free or corruption[\w !()]{0,30}|malloc\(\): [\w ()]{4,60}"
         r"|malloc_consolidate\(\): [\w ]{4,60}|munmap_chunk\(\): invalid pointer"
         r"|realloc\(\): invalid [\w ]{2,30}|corrupted (?:size vs\. prev_size|double-linked list)[\w ]{0,30}"
         "|stack smashing detected)", Example("free(): invalid pointer",
         {"what": "free(): invalid pointer", "heap": True}, "glibc malloc/malloc.c"), _BROKEN),
    Rule("glog_fatal", "process.signal",
         r"^[\s:]{0,4}\[?F(?:(?:20\d\d)?\d{4} \d\d:\d\d:\d\d[.\d]{0,10} {1,8}\d{1,10})? [\w./+@-]{1,300}\.(?:cc"
         r"|cpp|cu|h):\d{1,6}\] (?P<what>[^\r\n]{1,600})",
         Example("F1122 10:00:00.123456 4711 server.cc:88] Unknown tensor id 17",
         {"what": "Unknown tensor id 17", "spoken": True}, "glog src/logging.cc, abseil absl/log"), _SPOKEN,
         read=_ended),
    Rule("signal_word", "process.signal",
         r"(?:^|(?<!\))[:\s\d*])(?P<word>Segmentation fault|Bus error|Aborted|Illegal instruction"
         r"|Floating point exception)\*{0,2}(?:\s*\(core dumped\)|\s{2,}|\.?\s{0,4}$)"
         r"|Signal: (?P<word_2>Segmentation fault|Bus error|Aborted)|Caught signal (?P<number>11|7|6)\b"
         r"|received signal SIG(?P<name>SEGV|BUS|ABRT)|\*\*\* SIG(?P<name_2>SEGV|BUS)|SIG(?P<name_3>ABRT) \(@",
         Example("[n7:231567] Signal: Segmentation fault (11)", {"signal": "SEGV"}, "bash, glibc, Open MPI, UCX, gdb"),
         read=_worded),
    _signal("KILL", _SHELL + r"Killed(?:\s{2,}.*|\s*|[a-z0-9%|#][^\r\n/]{0,60}\d{1,9} {0,2}/ {0,2}\d{1,9}(?:\s.*)?)$",
            Example("run.sh: line 12:  4711 Killed                  python train.py", {"signal": "KILL"}, "bash")),
    _signal("TERM", r"(?:^|\s\d+ |line \d+:\s+\d+ )Terminated(?:\s{2,}.*|\s*)$",
            Example("Terminated", {"signal": "TERM"}, "bash")),
)  # fmt: skip


def _memory(match: "Match[str]", data: Data) -> Optional[Data]:
    return dict(data, mapping="unable to mmap" in match.string) if "NCCL WARN" not in match.string else None


def _not_nccl(match: "Match[str]", data: Data) -> Optional[Data]:
    return None if "NCCL WARN" in match.string else data


HOST = (
    Rule("open_files", "host.open_files",
         "Too many open files|received 0 items of ancdata",
         Example("OSError: [Errno 24] Too many open files: '/data/shard-7'", {},
         "Linux EMFILE; torch/multiprocessing/reductions.py"), read=_not_nccl),
    Rule("processes", "host.processes",
         r"(?:pthread_create|[Tt]hread creation|thread constructor|\bfork"
         r"|\bclone)\b[^\r\n]{0,80}?Resource temporarily unavailable|can't start new thread"
         r"|RLIMIT_NPROC \d{1,9} current|unable to create native thread"
         r"|Resource temporarily unavailable[^\r\n]{0,40}(?:pthread_create|thread|fork)",
         Example("OpenBLAS blas_thread_init: RLIMIT_NPROC 4096 current, 4096 max", {},
         "Linux EAGAIN; OpenBLAS, CPython"), read=_not_nccl),
    Rule("host_memory", "host.memory",
         r"(?:Cannot allocate memory|\b(?:RayOutOf)?MemoryError\b|std::bad_alloc"
         r"|memory allocation of \d+ bytes failed|DefaultCPUAllocator: (?:can't allocate|not enough) memory"
         "|node running low on memory|killed due to memory pressure"
         r"|\bMemory on the node \(IP: (?P<by_host>[\w.:-]{3,80}), ID: \w{1,80}\) where the (?:task|actor"
         r"|lease))(?:[^\n]{0,120}?tried to allocate (?P<tried>\d+) bytes)?",
         Example("DefaultCPUAllocator: can't allocate memory: you tried to allocate 244470272 bytes. Error code 12",
         {"tried": 244470272, "mapping": False}, "Linux ENOMEM; c10/core/impl/alloc_cpu.cpp"), read=_memory),
    Rule("shared_memory", "host.shared_memory",
         "out of shared memory|insufficient shared memory|unable to (?:open|resize|write to file"
         r"|mmap)[^\n]{0,120}?(?:shared memory|/torch_|/dev/shm)|No space left on device[^\n]{0,80}?/dev/shm",
         Example("RuntimeError: unable to write to file </torch_4711_3>: No space left on device (28)", {},
         "torch csrc/StorageSharing.cpp"), read=_not_nccl),
)  # fmt: skip


_LIGHT = re.compile(
    r"(?i)retry|retri|fall(?:ing|s)? ?back|ignor|skip|deprecat|not (?:installed|supported|available|enabled)"
    r"|optional|disabl|attempt \d|reconnect|warning|NO_DEVICE|no (?:cuda-capable )?device|cleaned up|shutting down"
    r"|shutdown|already registered|unable to register|error[ _]?(?:rate|handler)|export\w{0,4} (?:spans?|metrics)"
)
"""Words of lines at the level for errors after which programs go on, or that only clean up."""


def _fatal(match: "Match[str]", data: Data) -> Optional[Data]:
    """An exception, or a line at a level for errors, of which no other rule knows anything."""
    text = str(data.get("message", "")).strip()
    if data.get("told") == "exit":
        code = number(str(data.get("exitcode"))) if "exitcode" in data else None
        return dict(data, exitcode=code) if code or "signal" in data else None
    if data.get("told") == "level" and (len(text) < 8 or _LIGHT.search(match.string[:240])):
        return None
    if data.get("told") == "exception":
        return dict(exceptions.headline("%s: %s" % (data.pop("type"), text)), told="exception")
    what = exceptions.signature(text)
    ends = exceptions.follows(text) or what in ("child_failed", "interrupt")
    return dict(data, message=text[:600], signature=what, consequence=ends)


FATAL_LINES = (
    Rule("exception_line", "log.error",
         r"(?<![\w.\"'`])(?P<type>[A-Za-z_][\w.]{0,120}(?:Error|Exception|Interrupt|Failure|Died)|std::\w{3,24}"
         r"|c10::\w{3,30}Error)(?:\(\w{1,60}\))?: (?P<message>[^\r\n]{2,600})",
         Example("worker failed with ValueError: bad shard 7",
         {"told": "exception", "type": "ValueError", "message": "bad shard 7"}, "any Python program"),
         {"told": "exception"}, read=_fatal),
    Rule("exit_line", "log.error",
         r"\b(?:[Ee]xit(?:ed|s|ing)?|[Tt]erminated|returned|[Ff]ailed|died|crashed"
         r"|ended)\b[^\r\n]{0,60}?\b(?:[Cc]ode|[Ss]tatus|returncode|exitcode"
         r"|exit_code)\b[\s:='\"(]{1,6}(?P<exitcode>-?[1-9]\d{0,3})\b|(?:[Kk]illed|[Tt]erminated|[Dd]ied"
         r"|[Ee]xited|[Cc]rashed)\b[^\r\n]{0,40}?\bsignal\b[\s:=#(]{0,4}(?P<signal>\d{1,2}\b|SIG[A-Z]{2,6})",
         Example("trainer on host n7 exited with code 3", {"told": "exit", "exitcode": 3}, "any launcher"),
         {"told": "exit"}, read=_fatal),
    Rule("fatal_line", "log.error",
         r"^(?:[^\r\n\"'`=]{0,100}?[\s\[|:(-])?(?:FATAL|CRITICAL|ERROR|SEVERE)\b[\])"
         r"|:\s-]{1,6}(?P<message>[^\r\n]{8,600})|^(?:[Ff]atal(?: [Ee]rror)?"
         r"|[Ee]rror): (?P<message_2>[^\r\n]{8,600})|^[\s:]{0,4}\[?E\d{4} \d\d:\d\d:\d\d[^\]\r\n]{0,120}\.(?:cc"
         r"|cpp|cu|py):\d{1,6}\] (?P<message_3>[^\r\n]{8,600})|\blevel=\"?(?:error|fatal"
         r"|panic)\b[^\r\n]{0,200}?\bmsg=\"?(?P<message_4>[^\r\n]{8,600})",
         Example("2026-11-22 10:00:00 ERROR trainer: the shard of worker 3 is broken", {"told": "level"},
         "any logger"), {"told": "level"}, read=_fatal),
)  # fmt: skip
"""Asked only of lines of which no other rule says anything: what is told where nothing is known by name."""
