"""What looks like the end of a program to anyone who reads it, whoever printed it and in whatever words.

No program is known by name here: an exception that stands in a sentence, an exit code or a signal, a collective that
timed out, a line at a logger's level for errors. ``log.error`` is hearsay: the rules ask for it where nothing that is
known by name says how a job ended.
"""

from __future__ import annotations

from typing import Iterator, Optional

from collectors.node import late_re as re
from collectors.node.logs.families import calm, fatal, telemetry
from collectors.node.logs.lines import signals
from collectors.node.logs.records import exceptions, tracebacks
from collectors.node.logs.said import Data, Family, Said, number

_EXCEPTION = re.compile(
    r"(?<![\w.])(?P<type>[A-Za-z_][\w.]{0,120}(?:Error|Exception|Interrupt|Timeout|Failure|Died|Crashed|\.KilledWorker)"
    r"|KilledWorker|Exception|(?:[\w.]{1,80}\.)?(?:BrokenProcessPool|TimeoutExpired)"
    r"|std::(?:runtime_error|logic_error|out_of_range|invalid_argument|length_error|bad_[a-z_]{3,20}|system_error|exception"
    r"|filesystem::filesystem_error)|c10::\w{3,30}Error"
    r"|socket\.(?:gaierror|herror|timeout)|forrtl: severe|(?:\S{0,120}/)?(?:lua|luajit|th)(?=: \S{1,200}\.lua:\d)"
    r"|[a-z_][\w.]{0,80}(?:\.exc|exceptions?|errors?)\.[\w.]{0,60}[A-Z]\w{2,60})"
    r"(?:\(\w{1,60}\)| \(\d{1,4}\))?: (?P<message>[^\r\n]{2,600})"
)
"""Classes by their name's end, or by the module that they come from: ``torch._dynamo.exc.Unsupported``."""
_BARE = re.compile(
    r"^\s{0,4}(?P<type>(?:[a-z_][\w.]{0,100}\.[A-Z]\w{0,60}(?:Error|Exception)|AssertionError|EOFError|NotImplementedError"
    r"|StopIteration|RuntimeError|queue\.Empty|_queue\.Empty|TimeoutError|MemoryError))\s{0,4}$"
)
"""A line that is nothing but a class: an exception without a message."""
_SENTENCE = re.compile(
    r"(?i)\b(?:unhandled|uncaught|unexpected) (?:\w{1,20} )?exception\b[^:\r\n]{0,60}: ?(?P<message>[^\r\n]{4,600})"
)
"""An exception that is told in a sentence, without its class."""
_STATUS = re.compile(r"\b(?P<type>UNAVAILABLE|DEADLINE_EXCEEDED):(?P<message>(?! ?Internal: )[^\r\n]{8,600})")
"""gRPC's words of a service that was not reached in time."""
_QUOTES = "`\"'“"
_EXIT = re.compile(
    r"(?i)\b(?:exit(?:ed|s|ing)?|terminat(?:ed|es|ing)|returned|finished|failed|died|crashed|ended|completed|stopped)\b"
    r"[^\r\n]{0,60}?\b(?:code|status|rc|returncode|exitcode|exit_code)\b[\s:='\"(]{1,6}(?P<code>-?\d{1,4})\b(?!\[)"
)
_EXIT_CODE = re.compile(r"(?i)\bexit[ _]?(?:code|status)\b[\s:='\"(]{1,14}(?P<code>-?\d{1,3})\b")
_NON_ZERO = re.compile(r"(?i)\bnon-?zero (?:exit[ -]?)?(?:code|status)\b|\bexited with non\b")
_SIGNAL = re.compile(
    r"(?i)\b(?:killed|terminated|died|exited|crashed|caught|got|ended|signall?ed|stopped"
    r"|shut ?down)\b[^\r\n]{0,40}?\bsignal\b[\s:=#(]{0,4}"
    r"(?:(?P<number>\d{1,2})\b|(?P<name>SIG(?!USR|CONT|CHLD|WINCH)[A-Z]{2,6}))"
)
_DIED = re.compile(
    r"(?i)\b(?:got|received) (?:a )?fatal signal\b|\*\*\* Process received sig"
    r"|\bfailed to start (?:the |a |an )?(?:\w{1,20} )?(?:workers?|engine|process(?:es)?|ranks?|executors?|actors?)\b"
    r"|\b(?:workers?|process(?:es)?|ranks?|actors?|engines?|engine core|executors?|trainers?)\b[^\r\n]{0,60}?"
    r"\b(?:(?:has |have |was |is )?(?:died|crashed|dead|failed to start)|(?:was|were|been) killed"
    r"|terminated unexpectedly|exited unexpectedly)\b|\bmeans (?:the|one|a) child(?: process)? failed\b"
)
"""What parents say of children that end by themselves."""
_MEMORY = re.compile(
    r"(?i)\b(?:exceed(?:ed|s|ing)|over|above)\b[^\r\n]{0,40}\bmemory (?:budget|limit|request)(?! at some point)"
    r"|(?<!GPU )\bmemory\b[^\r\n]{0,30}\b(?:exceed(?:ed|s)|exhausted)\b"
    r"|\b(?:memory (?:is |runs )?low|low (?:on )?memory|memory pressure)\b[^\r\n]{0,300}?\bkill(?:ing|ed)\b"
    r"|\bkill(?:ing|ed)\b[^\r\n]{0,200}?\b(?:to (?:avoid|prevent) (?:running )?out of memory"
    r"|(?:due to|because of|under) (?:low memory|memory pressure))\b"
)
"""A supervisor's word about memory that a process used up."""
_MILD = re.compile(
    r"^[\s:]{0,4}\[?[WI](?:(?:20\d\d)?\d{4} \d\d:\d\d:\d\d[^\]\r\n]{0,120}"
    r"| [\w./+@-]{1,200}\.(?:cc|cpp|cu|c|h):\d{1,6})\] "
)
"""A line at a level below errors, of TensorFlow and glog: a tool's exit code that it tells of is nobody's end."""
_CALL = re.compile(
    r"\b(?P<what>(?:[NRHX]|one)?CCL (?:error|failure)(?: in)?: ?[^\r\n]{4,300}|CCL_ERROR\| ?[^\r\n]{4,300}"
    r"|nccl(?:InvalidUsage|InvalidArgument|SystemError|InternalError|UnhandledCudaError|RemoteError): [^\r\n]{4,300})"
)
_FILE = re.compile(
    r"(?:^|[\s\]])[\w./-]{1,80}: error while loading shared libraries: [^\r\n]{4,300}"
    r"|^[\w./-]{1,40}: (?:[^\r\n]{1,300}: )?(?:Stale (?:NFS )?file handle|Transport endpoint is not connected"
    r"|Input/output error|No space left on device|Read-only file system|Disk quota exceeded)\s{0,4}$"
)
"""A program's last word about a file: ``ls: cannot access /data: Stale file handle``."""
_OPERATION = (
    r"(?:all[_-]?reduce|all[_-]?gather|reduce[_-]?scatter|broadcast|all[_-]?to[_-]?all|barrier|collectives?\b"
    r"|(?:NCCL|RCCL|HCCL|XCCL|UCC|oneCCL|CCL|gloo|MPI|DeepEP|NVSHMEM)"
    r" (?:\w{1,20} )?(?:operation|work|communicator|communication))"
)
_TIME_OUT = r"(?:tim(?:ed|es|ing)[ -]?out|time-?out\b[^\r\n]{0,24}\b(?:expired|exceeded|reached|hit|after|occurred))"
_TIMED_OUT = re.compile(
    rf"(?i)\b{_OPERATION}[^\r\n]{{0,100}}?\b{_TIME_OUT}|\b{_TIME_OUT}[^\r\n]{{0,80}}?\b{_OPERATION}"
    rf"|\bDeepEP\b[^\r\n]{{0,60}}\btimeout\b"
    rf"|\btimeout\b[^\r\n]{{0,30}}\bexpired\b[^\r\n]{{0,40}}\b{_OPERATION}"
)
_SILENT = re.compile(
    r"(?i)\b(?:did not (?:get|receive)|no|missed|lost) (?:\w{1,12} ){0,2}heartbeats?\b"
    r"(?! (?:config|interval|timeout is))"
    r"|\bheartbeats? (?:has |have )?(?:timed[ -]?out|expired|lost|missing|not received)"
    r"|\bsuspects? a hang\b|\bhang (?:is |was )?(?:detected|suspected)\b"
)
"""A monitor's word that a process no longer tells of itself."""
_UNREADY = re.compile(
    r"(?:\bError (?P<code>80[234]): (?P<what>[^\r\n(]{8,160})"
    r"|(?P<bare>CUDA_ERROR_SYSTEM_(?:NOT_READY|DRIVER_MISMATCH)))"
)
"""What CUDA says of a driver, or of NVSwitches, that are not ready for it."""
_LEVEL = re.compile(
    r"^(?:[^\r\n\"'`=]{0,100}?[\s\[|:(-])?(?P<level>FATAL|CRITICAL|ERROR|SEVERE|FTL)\b(?:[\])|:\s-]{1,6})(?P<message>[^\r\n]{8,600})"
    r"|^(?P<fatal>[Ff]atal(?: [Ee]rror)?|[Ee]rror): (?P<said>[^\r\n]{8,600})"
    r"|^(?:\[[^\]\r\n]{1,80}\] ?){0,4}\[(?:NeMo )?E(?: \d{4}-\d\d-\d\d"
    r" \d\d:\d\d:\d\d[^\]\r\n]{0,60})?\] {0,2}(?P<letter>[^\r\n]{8,600})"
    r"|^(?:\[[^\]\r\n]{1,80}\] ?)?E[A-Z1-9]\d{4}: (?P<coded>[^\r\n]{8,600})"
    r"|^[\s:]{0,4}\[?E(?:\d{4} \d\d:\d\d:\d\d[^\]\r\n]{0,120}| [\w./+@-]{1,200}\.(?:cc|cpp|cu|c|h):\d{1,6})\] "
    r"(?P<logged>[^\r\n]{8,600})"
    r"|^(?:\[[^\]\r\n]{1,60}\] ?){0,4}\[(?:error|fatal|critical)\] ?(?:\[[^\]\r\n]{1,60}\] ?){0,3}"
    r"(?P<lower>[^\r\n]{8,600})"
    r"|^[^\r\n]{0,160}?\blevel=\"?(?:error|fatal|panic|critical)\b[^\r\n]{0,200}?\bmsg=\"?(?P<logfmt>[^\r\n]{8,600})"
)
_INNER = re.compile(r"^.{0,120}?\b(?:INFO|DEBUG|TRACE|NOTICE|WARN(?:ING)?)\b[\]| :\[]")
"""A level of its own within the message: what is passed on at the level for errors is none."""
_NOTHING = re.compile(
    r"(?i)[<(\[]?(?:(?:none|null|nil|n/a)\b"
    r"|(?:level|logging|path|section|is (?:set|on|off|enabled))\b(?! [A-Z]\w{1,40}:))"
)
"""The value of a field, ``Fatal: none so far``, or words around the name of a level: ``log level ERROR is set``."""
_SETTING = re.compile(
    r"(?i)\bis the default\b|\b(?:handling|detection|handlers?|policy) {0,4}(?:$|[:=]|is\b|are\b|for\b|registration\b)"
    r"|\b(?:is|are) (?:set|enabled|disabled)\b|(?:\b(?:is|are)|:) (?:on|off)\s{0,4}(?:$|[,.;])"
    r"|\bexpected (?:exit|return) (?:code|status) -?\d|\b(?:will|would) be (?:killed|terminated|ended|signal)"
    r"|\b(?:died|crashed|dead|killed|timed[ -]?out|failed)\b[\w ]{0,20}[:=]? {0,8}(?:0|none|no|never|false)\s{0,4}$"
    r"|\bno hangs?\b|\bheartbeats? (?:is|are) sent\b|\bcount {0,4}[:=]? {0,4}0\b|" + telemetry.LOST
)
"""How something is set, what might be, a count of none, and what is lost of telemetry, in words of ends elsewhere."""
_HANDLED = re.compile(r"(?i)\b(?:catching|handled|handling|ignor(?:ed|ing)|suppress(?:ed|ing)|swallow(?:ed|ing)) $")
"""In front of an exception that somebody expected."""
TRAILED = re.compile(r" \[/?[\w./+-]{1,200}\.(?:cpp|cc|c|h):\d{1,6}\] \[[^\]\r\n]{1,120}\]\s{0,4}$")
"""File and function behind a message, as DCGM's host engine writes them: a program of the machine, and no rank."""
LIGHT = re.compile(
    r"(?i)already (?:been )?registered|unable to register|retry|retri|fall(?:ing|s)? ?back|ignor|skip|deprecat"
    r"|will be [a-z]{3,12}ed"
    r"|not (?:installed|supported|available|enabled)|optional|disabl|attempt \d|reconnect|warning|instead of|by default"
    r"|unavailable on (?:the )?(?:compiling )?system|failed call to cuInit|NO_DEVICE|no (?:cuda-capable )?device"
    r"|not a git repository|\bvfs_(?:fuse|sock)\.c\b"
    r"|cleaned up|shutting down|shutdown|(?<!: )no error|0 errors|error[ _]?(?:rate|bar|file|handler|code: 0)"
    r"|" + telemetry.LOST + r"|(?:^|\d\.\d{3} )[VDIWE]/[\w.:-]{1,60} {0,20}\( {0,6}\d{1,6}\): "
    r"|\d\.\d{3} {1,6}\d{1,6} {1,6}\d{1,6} [VDIWEF] [\w.-]{1,60} {0,30}: "
)
"""Words of lines at the level for errors after which programs go on, or that only clean up; and Android's log."""
_HERE = re.compile(r"❱ {0,4}\d{1,6} │")
_BEHEADED = re.compile(
    r"^[^\"\s][^\"\r\n]{0,300}\.py\", line \d{1,7}, in \w"
    r"|^ {2,8}/[\w./+-]{1,300}-packages/[\w./+-]{1,300}\.py:\d{1,7} [A-Za-z_<][\w>]{0,100}(?: {1,3}\*{1,2})?\s{0,4}$"
)
"""A frame of which the beginning is cut off; one of a function that TensorFlow made a graph of."""
_LAUNCHES = re.compile(r"elastic_launch|launch_agent|ChildFailedError|CalledProcessError")
_HEAD = 240
"""Characters of a line in which such words count: behind them come commands and options."""
_GRAVE = ("FATAL", "CRITICAL")
_RANK = re.compile(r"(?i)(?:\brank[ =:#_]{0,3}|\bTime out nodes are \['(?=\d{1,6}'\]))(?P<rank>\d{1,6})\b")
_NODE = re.compile(r"\b(?:on|at) (?:node|host|machine) (?P<node>[A-Za-z][\w.-]{1,80})")


def read(text: str) -> Iterator[Said]:
    """Events of one line: the most telling one."""
    said = _framed(text) or _raised(text) or _starved(text) or _ended(text) or _waited(text) or _logged(text)
    if said is None or fatal.OF_X.search(text[:_HEAD]):
        return
    node = _NODE.search(text)
    rank = number(rank_of.group("rank")) if (rank_of := _RANK.search(text)) is not None else None
    if rank is not None:
        said["about"] = rank
    yield Said("log.error", said, host=node.group("node").rstrip(".-") if node is not None else "")


def _framed(text: str) -> Optional[Data]:
    """A place in a traceback whose head is cut off: in rich's picture, or half a frame."""
    if not _HERE.search(text) and not _BEHEADED.match(text):
        return None
    what = "child_failed" if _LAUNCHES.search(text) else "user"
    return {"told": "stack", "message": tracebacks.MIDDLE, "signature": what, "consequence": what == "child_failed"}


def _raised(text: str) -> Optional[Data]:
    """An exception, its message up to the quote that closes it."""
    match = _EXCEPTION.search(text)
    if match is None:
        bare = _BARE.match(text)
        if bare is not None:
            return dict(exceptions.headline(bare.group("type")), told="exception")
        status = _STATUS.search(text)
        if status is not None and not LIGHT.search(text[:_HEAD]):
            data = dict(exceptions.headline(status.group()), told="exception")
            return dict(data, type=status.group("type"), message=status.group("message").strip(), signature="store")
        told = _SENTENCE.search(text)
        if told is None or LIGHT.search(text[:_HEAD]):
            return None
        return dict(exceptions.headline(told.group("message").strip()), told="exception")
    if _HANDLED.search(text[max(0, match.start() - 16) : match.start()]):
        return None
    quote = text[match.start() - 1] if match.start() else ""
    message = match.group("message")
    if quote and quote in _QUOTES:
        message = message.partition("”" if quote == "“" else quote)[0]
    if not message.strip():
        return None
    return dict(exceptions.headline(f"{match.group('type')}: {message.strip()}"), told="exception")


def _starved(text: str) -> Optional[Data]:
    """Memory that a supervisor says was used up, or a library's call that failed in words nobody knows."""
    if _MEMORY.search(text) and not _SETTING.search(text[:_HEAD]):
        return {"told": "memory", "message": text.strip()[:300], "signature": "host_memory"}
    unready = _UNREADY.search(text)
    if unready is not None:
        what = (unready.group("what") or unready.group("bare")).strip()
        return {"told": "stack", "message": "CUDA cannot start: " + what, "signature": "cuda"}
    file = _FILE.search(text)
    if file is not None:
        return {"told": "words", "message": text.strip()[:300], "signature": "file_system"}
    call = _CALL.search(text)
    return None if call is None else {"told": "stack", "message": call.group("what"), "signature": "nccl"}


def _ended(text: str) -> Optional[Data]:
    """A process's end by a code or a signal that means a failure."""
    if _SETTING.search(text[:_HEAD]) or _MILD.match(text):
        return None
    ended = _EXIT.search(text) or _EXIT_CODE.search(text)
    by = _SIGNAL.search(text)
    code = number(ended.group("code")) if ended is not None else None
    if by is not None and not code:
        return {"told": "exit", "signal": signals.name(by.group("name") or by.group("number"))}
    if not code:
        return {"told": "exit"} if _NON_ZERO.search(text) or _DIED.search(text) else None
    data: Data = {"told": "exit", "exitcode": code}
    named = signals.of_exit(code)
    if named:
        data["signal"] = named
    return data


def _waited(text: str) -> Optional[Data]:
    if _SETTING.search(text[:_HEAD]):
        return None
    silent = _TIMED_OUT.search(text) or (_SILENT.search(text) and not LIGHT.search(text[:_HEAD]))
    return {"told": "timeout"} if silent else None


_PETSC = re.compile(
    r"(?:\[\d{1,7}\])?PETSC ERROR: (?: |[-=#]|Try option|or (?:see|try) |configure using|to get more|See |Petsc "
    r"|Configure |Libraries|Using |It appears a new|Above is |ALL ERRORS|User provided |No error traceback"
    r"|Signal received|INSTEAD|likely location|\S{0,200} on a )"
)
"""What PETSc prints around its message: advice, versions, frames."""


def _logged(text: str) -> Optional[Data]:
    """What a line at the level for errors says."""
    level = _LEVEL.search(text)
    if (
        level is None
        or _PETSC.match(text)
        or telemetry.TRACKERS.match(text)
        or TRAILED.search(text[-400:])
        or (level.group("level") not in _GRAVE and LIGHT.search(text[:_HEAD]))
    ):
        return None
    message = next(
        group for group in level.group("message", "said", "letter", "coded", "logged", "lower", "logfmt") if group
    )
    message = calm.PLACE.sub("", message.strip()).strip()
    if len(message) < 8 or _INNER.match(message) or _NOTHING.match(message) or calm.WORK.match(message):
        return None
    what = exceptions.signature(message)
    return {
        "told": "level",
        "message": message[:600],
        "signature": what,
        "consequence": exceptions.follows(message) or what in ("child_failed", "interrupt"),
    }


_STEMS = (
    b"Error: ", b"Exception: ", b"Error(", b"Interrupt: ", b"Timeout: ", b"Failure: ", b"Died: ", b"Crashed: ",
    b"KilledWorker: ", b"xceptions.", b"rrors.", b".exc.", b"BrokenProcessPool", b"TimeoutExpired",
    b"AssertionError", b"EOFError", b"NotImplementedError", b"RuntimeError", b"StopIteration", b"queue.Empty",
    b"ed exception", b"UNAVAILABLE:", b"DEADLINE_EXCEEDED:", b"std::", b"forrtl: severe",
    b"CCL_ERROR|", b"eartbeat", b" hang", b"Hang ", b"Error 80", b"CUDA_ERROR_SYSTEM_", b"socket.", b"ncclInvalid",
    b"ncclSystemError", b"ncclInternalError", b"ncclUnhandled", b"ncclRemoteError", b"[E] ", b"[NeMo E ",
    b"9999: ", b"Killed", b"killed", b"received sig", b"memory ", b"CCL error", b"CCL failure", b"rror: ",
    b"ERROR", b"FATAL", b"CRITICAL", b"SEVERE", b"Fatal", b"fatal", b"imed out", b"ime out", b"imeout",
    b"imed-out", b"TIMEOUT", b"xit code", b"xit status", b"xit_code", b"xitcode", b"xitCode", b"Exit Code",
    b"with code", b"with status", b'.py", line ', b"-packages/", b" died", b"rashed", b" dead", b"ailed to start",
    b"shared libraries", b"file handle", b"hild failed", b"hild process failed",
    b"Transport endpoint", b"put/output error", b"space left on", b"only file system",
    b"quota exceeded", b"[error]", b"[fatal]", b"[critical]", b" unexpectedly", b"return code", b"returncode",
    b"signal", b"Signal", "❱ ".encode(), b" failed: ", b"ailed to ", b"on-zero ", b"onzero ", b"exited with non",
    b".cc:", b".cpp:", b".go:", b"level=error", b"level=fatal", b"level=panic",
)  # fmt: skip
FAMILY = Family("errors", _STEMS, read, hearsay=True)
