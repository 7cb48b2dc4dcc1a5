"""What a log as a whole is: whose lines without a label are, how it ends, and what kind of log it is."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from collectors.node.logs.families import hccl
from collectors.node.logs.lines import counters
from collectors.node.logs.lines.names import Hints
from collectors.node.logs.parser import BEFORE, LogParser
from collectors.samples.logs import CommProgress, LogEvent
from collectors.samples.values import Value
from hangtop.session.folder.after import last_line as end_of

_KERNEL = re.compile(
    rb"^(?:\[ *\d+\.\d{6}\]|<\d+>\[|\w{3} +\d+ \d\d:\d\d:\d\d \S+ kernel:|\[\w{3} \w{3} +\d+)", re.MULTILINE
)
ORDINARY = 40
"""Lines after a logged exception that show that the run went on; shutting down prints fewer."""
LONG, WENT_ON = 200, 5
"""Lines since an exception, and steps among the last lines, that show that the run went on, or was begun anew."""
LEAVING = 24
"""Lines below the traceback of a Control-C in which a process says that its threads' end aborts it."""
UNDER = 12
"""Lines below a help text of Open MPI's on a peer that has hung up, in which the one who lost it aborts."""
_OF_SCRIPTS = re.compile(r"(?:Conda\w{0,30}Error|CommandNotFoundError|Environment(?:Name|Location)NotFound\w{0,6})$")
"""Errors of conda's command line: a job's script goes on after them, and runs what it was to run."""
_OF_A_SHELL = re.compile(r"Run 'conda init' before 'conda ")
"""What conda's function says in a shell that lacks it: whatever environment there is, the script's next line runs."""
_GLOG_SIGNAL = re.compile(r"\bSIG[A-Z]{3,4} \(@0x")
"""glog's second line, which names the signal; its first says *Aborted at* whatever signal it was."""
_ITEM = re.compile(r"\s{0,8}[\[(]?(?P<number>\d{1,9}) ?/ ?(?P<of>\d{1,9})[\])]?[ :]")
_WORDS = re.compile(r"(?!usage|hint|note|help|for more|try |see |run |did you|tip)[a-z\d]{2}")
"""How a line of a script's own begins, in small letters: not as what a command says of how it is to be called."""
_ENDS = ("python.", "process.", "torch.out_of_memory", "torch.worker_died")
"""Kinds by which a process may have ended."""
_OF_NOBODY = ("elastic.", "launcher.", "slurm.", "kernel.", "log.")
"""Kinds that launchers and kernels print: the file's rank is not theirs."""


def finished(events: Sequence[LogEvent], parser: LogParser, hints: Hints) -> list[LogEvent]:
    """The log's events with what only its end tells: the rank of unlabelled lines, and that it ended."""
    owner = _owner(events)
    last_line = parser.line - 1
    raised = max((e.line for e in events if _raised(e)), default=-1)
    stopped = [e.line for e in events if _interrupted(e)]
    interrupted = [end_of(e) for e in events if e.data.get("type") == "KeyboardInterrupt"]
    steps = _steps(parser)
    step = steps[-1] if steps else 0
    stepped = steps[-2] if len(steps) > 1 else 0  # a bar is drawn once more when it is closed
    named = {event.line for event in events if event.kind == "process.signal" and _GLOG_SIGNAL.search(event.text)}
    hung_up = [event.line for event in events if event.kind == "peer.lost" and event.data.get("peer")]
    told = []
    for event in events[len(_earlier(events, steps, last_line)) :]:
        if event.rank is None and owner is not None and _own(event):
            event = event._replace(rank=owner)  # noqa: PLW2901 - the same event, its rank filled in
        elif event.rank is None and hints.local_rank is not None and "local_rank" not in event.data:
            event = event._replace(data={**event.data, "local_rank": hints.local_rank})  # noqa: PLW2901 - as above
        if event.data.get("logged") is True and _survived(
            event, raised, min((at for at in stopped if at > event.line), default=last_line)
        ):
            event = event._replace(data={**event.data, "survived": True})  # noqa: PLW2901 - as above
        if event.kind == "log.error" and (
            event.line < step
            or last_line - event.line > ORDINARY
            or _of_a_tool(event, parser)
            or _of_an_item(event, parser)
        ):
            event = event._replace(data={**event.data, "survived": True})  # noqa: PLW2901 - as above
        scripts = _OF_SCRIPTS.match(str(event.data.get("type", ""))) and (
            last_line - event.line > ORDINARY or _OF_A_SHELL.match(str(event.data.get("message", ""))) is not None
        )
        if event.kind.startswith(_ENDS) and (scripts or (event.line < stepped and event.data.get("cut") is True)):
            event = event._replace(data={**event.data, "survived": True})  # noqa: PLW2901 - as above
        if event.data.get("spoken") is True and any(0 < event.line - at <= UNDER for at in hung_up):
            event = event._replace(data={**event.data, "consequence": True})  # noqa: PLW2901 - as above
        if _aborts(event) and any(0 < event.line - at <= LEAVING for at in interrupted):
            event = event._replace(data={**event.data, "consequence": True})  # noqa: PLW2901 - as above
        if event.kind == "process.signal" and (event.line + 1 in named or event.line + 2 in named):
            event = event._replace(data={**event.data, "survived": True})  # noqa: PLW2901 - as above
        told.append(event)
    last = parser.last_time()
    data: dict[str, Value] = {"lines": parser.line - 1}
    if last is not None:
        data["last"] = last
    rank = hints.rank
    if rank is None and hints.local_rank is not None:
        rank, data["local_rank"] = owner, hints.local_rank
    told.append(LogEvent("log.end", last, rank, hints.host, None, parser.source, parser.line - 1, "", data))
    return told


def _aborts(event: LogEvent) -> bool:
    """Whether it is the abort of a process: by C++, by its signal, or in the words of Paddle's summary."""
    words = event.kind in ("python.exception", "log.error") and "abort" in event.text.lower()
    return words or (event.kind == "process.signal" and event.data.get("signal") == "ABRT")


def _behind(event: LogEvent, parser: LogParser) -> bytes:
    """What stands behind its line, as far as the end of the log is kept."""
    return parser.tail.rpartition(event.text.strip().encode("utf-8", "replace"))[2]


def _of_a_tool(event: LogEvent, parser: LogParser) -> bool:
    """Whether a command of a script said so, as kubectl and git do, and the script went on with its next words."""
    if not event.text.startswith("error: "):
        return False
    behind = _behind(event, parser).split(b"\n")[1:]
    return any(_WORDS.match(row) and not counters.is_trouble(row) for row in map(counters.plain, behind))


def _of_an_item(event: LogEvent, parser: LogParser) -> bool:
    """Whether it tells of one of many that are gone through, as its number in front says, and later ones did well."""
    own = _ITEM.match(event.text)
    behind = _behind(event, parser).decode("utf-8", "replace")
    later = [] if own is None else [item for item in map(_ITEM.match, behind.split("\n")) if item is not None]
    return any(
        int(item.group("number")) > int(own.group("number")) and not counters.is_trouble(item.string.lower())
        for item in later
        if own is not None and item.group("of") == own.group("of")
    )


def _steps(parser: LogParser) -> list[int]:
    """Numbers of the lines, of those at the end, in which steps are counted."""
    found = []
    for back, line in enumerate(reversed(parser.tail[-BEFORE:].rstrip(b"\n").split(b"\n"))):
        text = counters.plain(line)
        seen = counters.counted(text)
        if seen is not None and seen.kind != counters.BARE and not counters.is_trouble(text):
            found.append(parser.line - 1 - back)
    return found[::-1]


def _earlier(events: Sequence[LogEvent], steps: Sequence[int], last_line: int) -> Sequence[LogEvent]:
    """What is told of earlier jobs: a batch system ended each of them, and the file goes on with another.

    After the last one ended, only its ranks' own last words may follow: steps are another run's, and so is a long text
    in which nobody fails.
    """
    ended = [(number, event) for number, event in enumerate(events) if event.kind == "slurm.cancelled" and _job(event)]
    if not ended:
        return []
    at, last = ended[-1]
    anew = sum(step > last.line for step in steps) >= WENT_ON
    if anew or (last_line - last.line > LONG and not events[at + 1 :]):
        return events[: at + 1]
    others = [number for number, event in ended if _job(event) != _job(last)]
    return events[: others[-1] + 1] if others else []


def _job(event: LogEvent) -> str:
    """The number of the job that was ended; empty where none is told."""
    step = event.data.get("step")
    return step.partition(".")[0] if isinstance(step, str) else ""


def _raised(event: LogEvent) -> bool:
    told = event.kind == "python.exception" and "logged" not in event.data and _own(event)
    return told and event.data.get("type") != "" and not _interrupted(event)


def _interrupted(event: LogEvent) -> bool:
    """Control-C, or a signal: who sent it had seen enough."""
    return event.kind == "python.exception" and event.data.get("signature") == "interrupt"


def _survived(event: LogEvent, raised: int, last: int) -> bool:
    """Whether a logged exception was not the end: another one was ``raised`` later, or the log goes on for long."""
    after = end_of(event) + 1
    return raised > after or last - after > ORDINARY


def _own(event: LogEvent) -> bool:
    if event.data.get("told") == "exit" and not {"signal", "exitcode", "about"} & event.data.keys():
        return False  # what a parent says of a child
    return (event.kind == "log.error" or not event.kind.startswith(_OF_NOBODY)) and event.data.get(
        "launcher"
    ) is not True


def _owner(events: Sequence[LogEvent]) -> int | None:
    """The one rank whose label the log has; None where it has several or none, or others speak: NCCL's, a launcher."""
    if any(event.kind.startswith(("launcher.killed", "launcher.exit", "elastic.")) for event in events):
        return None
    ranks = {event.rank for event in events if event.rank is not None}
    processes = {
        (event.host, event.pid) for event in events if event.pid is not None and event.kind.startswith("nccl.")
    }
    return next(iter(ranks)) if len(ranks) == 1 and len(processes) <= 1 else None


def kind_of_log(head: bytes, events: Sequence[LogEvent], progress: Sequence[CommProgress], hints: Hints) -> str:
    """What to call it."""
    families = Counter(event.kind.partition(".")[0] for event in events if not event.kind.startswith("log."))
    if len(_KERNEL.findall(head[:8192])) * 2 > head[:8192].count(b"\n"):
        return "kernel log"
    if families["hccl"] * 2 > sum(families.values()) or hccl.PLOG.match(head.decode("utf-8", "replace")):
        return "HCCL log (Ascend plog)" if b"HCCL(" in head else "rank log with HCCL"
    if progress or families["nccl"]:
        return "NCCL log" if families["nccl"] + len(progress) > sum(families.values()) // 2 else "rank log with NCCL"
    if families["slurm"] or b"srun: " in head or b"slurmstepd: " in head:
        return "Slurm output"
    if families["kernel"] and not families["torch"] and not families["python"]:
        return "kernel log"
    if families["elastic"]:
        return "torchrun log"
    if hints.stream or families or hints.rank is not None:
        return "rank log"
    return "text"
