"""How tasks ended, by launchers and batch systems of particular machines: SGE, Flux, Cray's ALPS and PALS, IBM's jsrun.

All give ``launcher.exit`` (or ``slurm.cancelled``), as the launchers that are known better do. Formats: SGE's mail and
``qmaster`` messages, Flux's ``doom`` plugin (``task rank 1 on host n3 failed and exit-on-error is set``), ``apinit``
(``PE RANK 3 exit signal …``), PALS (``rank 5 died from signal 11``), jsrun (``first noticed rank 3``).
"""

from __future__ import annotations

from typing import Iterator, Optional, Tuple

from collectors.node import late_re as re
from collectors.node.logs.lines import signals
from collectors.node.logs.said import Data, Family, Said, number

_WAYS: Tuple[Tuple[str, "re.Pattern[str]"], ...] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("sge", r"\bjob \d{1,12}\.\d{1,9} died through signal (?P<signal>[A-Z]{2,6}|\d{1,2})\b"),
        (
            "flux",
            (
                r"\brank (?P<task>\d{1,7}) on host (?P<host>[\w.-]{1,120}) (?P<reason>failed and exit-on-error is set"
                r"|exited and exit-timeout=\S{1,20} has expired)"
            ),
        ),
        ("alps", r"PE RANK (?P<task>\d{1,7}) exit signal (?P<words>[A-Z][\w ]{2,40})"),
        (
            "pals",
            (
                r"^(?P<host>[A-Za-z][\w.-]{1,120}): rank (?P<task>\d{1,7}) (?:died from signal (?P<signal>\d{1,2})"
                r"|exited with code (?P<exitcode>\d{1,3}))"
            ),
        ),
        (
            "mpd",
            (
                r"\bexit status of rank (?P<task>\d{1,7}): (?:killed by signal (?P<signal>\d{1,2})"
                r"|return code (?P<exitcode>[1-9]\d{0,2})\b)"
            ),
        ),
        ("plexec", r"\bplexec One of MPI processes was (?P<words>aborted)\.\(rank=(?P<task>\d{1,7})\)"),
        ("jsrun", r"first noticed rank (?P<task>\d{1,7})\) terminated with signal (?P<signal>\d{1,2})"),
        (
            "composer",
            (
                r"(?:^|\W)(?:Global )?[Rr]ank (?P<task>\d{1,7}) (?:\(PID (?P<pid>\d{1,10})\) exited"
                r" with code|crashed with exit code) (?P<exitcode>-?\d{1,3})"
            ),
        ),
    )
)
_WORDS = (
    ("Segmentation", "SEGV"), ("Killed", "KILL"), ("Aborted", "ABRT"), ("aborted", "ABRT"),
    ("Bus error", "BUS"), ("Terminated", "TERM"),
    ("Floating", "FPE"), ("Illegal", "ILL"),
)  # fmt: skip
_FLUX_ENDED = re.compile(
    r"job\.exception (?:\S{1,30} )?type=(?P<type>timeout|cancel|node-failure) severity=0 ?(?P<why>[^\r\n]{0,120})"
)
_EXECUTOR = re.compile(
    r"Lost executor \S{1,12} on (?P<host>[\w.-]{1,120}): (?P<why>[^\r\n]{1,400})|(?P<yarn>Container killed by YARN for"
    r" exceeding [^\r\n]{1,160})"
)
_STATUS = re.compile(r"[Ee]xit (?:status|code):? (?P<code>\d{1,3})\b")
"""Spark's scheduler on YARN, Kubernetes or by itself."""
_TIME = re.compile(
    r"(?i)\b(?:job|task|run)\b[^\r\n]{0,40}?\b(?:exceeded|exceeds|reached|hit|over|due to)\b[^\r\n]{0,24}?"
    r"\b(?:wall ?clock(?: time)?|wall ?time|run ?time) ?limit\b"
)
"""A limit of time, in the words of PBS, Moab, HTCondor and those who watch them."""
_MEMORY = re.compile(r"\bjob \d{1,12}[\w.\[\]-]{0,80} exceeded P?V?MEM usage (?:hard|soft) limit\b")
"""A limit of memory, in the words of Moab."""
_FLUX_MEMORY = re.compile(
    r"Memory cgroup out of memory: killed (?P<count>\d{1,6}) tasks? on (?P<host>[\w.-]{1,120}?)\.?\s{0,4}$"
)
"""Flux's shell, of its job's control group."""
_REQUEUED = re.compile(r"Handling auto-requeue signal: ?\w{1,10}")
"""Lightning, which a batch system told that the job's time is up: it saves, and has the job queued anew."""
_INTERRUPTED = re.compile(r"Main process received (?P<signal>SIG(?:INT|TERM)), exiting")
"""DeepSpeed's launcher, which somebody told to end."""
_MPIEXEC = re.compile(r"^\s{0,8}MPIEXEC_TIMEOUT: (?P<seconds>\d{1,9}) seconds\b")
"""Open MPI's, which was told how long the job may take."""
_REASONS = {"timeout": "time_limit", "cancel": "user", "node-failure": "node_failure"}


def read(text: str) -> Iterator[Said]:
    """Events of one line."""
    ended = _FLUX_ENDED.search(text)
    if ended is not None:
        reason = _REASONS[ended.group("type")]
        yield Said("slurm.cancelled", {"launcher": "flux", "reason": reason, "why": ended.group("why").strip()})
        return
    mpiexec = _MPIEXEC.match(text)
    if mpiexec is not None:
        yield Said("slurm.cancelled", {"launcher": "mpi", "reason": "time_limit", "why": mpiexec.group().strip()})
        return
    executor = _EXECUTOR.search(text)
    if executor is not None:
        yield _executor(executor.group("why") or executor.group("yarn"), executor.group("host") or "")
        return
    limited = _limited(text)
    if limited is not None:
        yield limited
        return
    for launcher, pattern in _WAYS:
        match = pattern.search(text)
        if match is None:
            continue
        groups = match.groupdict()
        data: Data = {"launcher": launcher}
        for name in ("task", "exitcode"):
            if groups.get(name):
                data[name] = number(groups[name])
        signal = groups.get("signal") or next(
            (name for word, name in _WORDS if (groups.get("words") or "").startswith(word)), ""
        )
        if signal:
            data["signal"] = signals.name(signal)
        if groups.get("reason"):
            data["reason"] = groups["reason"]
        yield Said("launcher.exit", data, host=groups.get("host") or "")
        return


def _limited(text: str) -> Optional[Said]:
    """A job that was told to end, or reached a limit."""
    interrupted, requeued, late = _INTERRUPTED.search(text), _REQUEUED.search(text), _TIME.search(text)
    if interrupted is not None:
        reason = "user" if interrupted.group("signal") == "SIGINT" else "other"
        return Said("slurm.cancelled", {"launcher": "deepspeed", "reason": reason, "why": interrupted.group()})
    if requeued is not None:
        return Said("slurm.cancelled", {"launcher": "lightning", "reason": "job_requeue", "why": requeued.group()})
    full = _FLUX_MEMORY.search(text)
    if full is not None:
        return Said(
            "slurm.out_of_memory",
            {"launcher": "flux", "count": number(full.group("count"))},
            host=full.group("host"),
        )
    if _MEMORY.search(text):
        return Said("slurm.out_of_memory", {"launcher": "moab"})
    if late is not None:
        return Said("slurm.cancelled", {"launcher": "batch", "reason": "time_limit", "why": late.group().strip()})
    return None


def _executor(why: str, host: str) -> Said:
    """The end of an executor, by what its scheduler knows of it."""
    if "memory" in why and ("exceed" in why or "OOM" in why):
        return Said("slurm.out_of_memory", {"launcher": "spark"}, host=host)
    data: Data = {"launcher": "spark", "reason": "lost: " + why.strip()[:200]}
    status = _STATUS.search(why)
    if status is not None:
        data["exitcode"] = number(status.group("code"))
        if signals.of_exit(number(status.group("code"))):
            data["signal"] = signals.of_exit(number(status.group("code")))
    return Said("launcher.exit", data, host=host)


FAMILY = Family(
    "schedulers",
    (
        b"MPIEXEC_TIMEOUT: ",
        b"died through signal", b" on host ", b"PE RANK ", b"died from signal", b"exited with code",
        b"crashed with exit", b"first noticed rank", b"Lost executor ", b"killed by YARN",
        b"job.exception ", b"process received SIG",
        b"xit status", b"MPI processes was aborted", b"MEM usage ", b"signal",
        b"cgroup out of memory",
        b"clock limit", b"clock time limit", b"time limit", b"timelimit",
    ),
    read,
)  # fmt: skip
