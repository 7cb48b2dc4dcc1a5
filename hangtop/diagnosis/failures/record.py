"""Reports of logs, launchers and kernels about the end of a rank: one :class:`Failure` for each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from signal import Signals
from typing import Literal

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.addresses import names_of
from hangtop.diagnosis.evidence.event_fields import number_of, numbers_of, text_of, when
from hangtop.diagnosis.job import Job, once

Manner = Literal["raised", "signal", "exit", "memory"]
"""``raised``: an exception or CUDA error of the rank itself. ``memory``: the kernel or a batch system reports that the
host's memory ran out."""

MANNERS: dict[str, Manner] = {
    "python.exception": "raised", "torch.out_of_memory": "raised", "torch.cuda_error": "raised",
    "torch.watchdog_error": "raised", "nccl.warn": "raised", "python.fatal": "signal", "process.signal": "signal",
    "kernel.segfault": "signal", "elastic.failure": "exit", "elastic.failed": "exit", "launcher.exit": "exit",
    "kernel.oom": "memory", "slurm.out_of_memory": "memory",
}  # fmt: skip
"""By the kind of the event. Of the last three that are ``raised`` only CUDA errors count."""
ENDING_SIGNALS = frozenset({"TERM", "SIGTERM", "INT", "SIGINT", "HUP", "SIGHUP"})
"""Signals by which launchers and batch systems end the rest of a job."""
VICTIM_SIGNATURES = frozenset({"connection", "interrupt", "child_failed", "nccl"})
"""Signatures of exceptions that follow from the end of another rank."""
TIME_OUTS = frozenset({"store", "rendezvous", "collective_timeout", "fingerprint"})
"""Signatures of exceptions that end a wait: rules about the wait itself say more."""
TIMED_OUT = ("torch.watchdog_timeout", "torch.taken_down", "gloo.timeout")
"""Events after which torch aborts the process itself."""
TASKS = 64
"""Most tasks that are taken from one line of a launcher."""
CLOCKS_S = 1.0
"""Seconds by which the start of a process, its log and our idea of its node's clock may differ."""
_SIGNALS = {int(number): number.name.removeprefix("SIG") for number in Signals}


@dataclass(frozen=True, slots=True)
class Failure:
    """One report about the end of one rank. ``rank`` is None if unknown."""

    rank: int | None
    at: float | None
    manner: Manner
    what: str
    """``ValueError: bad shard``, ``signal KILL``, ``exit code 1``."""
    signal: str
    consequence: bool
    """The rank ended because another rank, a launcher or a batch system ended first."""
    event: LogEvent

    @property
    def frame(self) -> str:
        """Where the rank raised, as ``load (data.py:88)``; empty if unknown."""
        return text_of(self.event, "frame")

    @property
    def text(self) -> str:
        """``ValueError: bad shard at load (data.py:88)``."""
        return f"{self.what} at {self.frame}" if self.frame else self.what

    @property
    def signature(self) -> str:
        """The class of the exception, as the log's rules name it."""
        return text_of(self.event, "signature")

    @property
    def bare(self) -> bool:
        """Whether it gives no reason: an exit code or an abort alone, or a traceback whose end is missing."""
        if self.signal:
            return self.signal == "ABRT"
        return (self.manner == "exit" or self.event.kind == "python.exception") and not text_of(self.event, "type")


def signal_name(event: LogEvent) -> str:
    """``KILL`` for SIGKILL, -9 or 137; empty if the event names no signal."""
    if event.kind == "kernel.segfault":
        return "SEGV"
    name, code = text_of(event, "signal").removeprefix("SIG"), number_of(event, "exitcode")
    return name if name or code is None else _SIGNALS.get(-code if code < 0 else code - 128, "")


@once
def failures(job: Job) -> tuple[Failure, ...]:
    """Every report about the end of a rank of this run, the earliest first.

    Reports about processes that ended before their rank was restarted are left out. An abort of a rank whose collective
    timed out, whose GPU failed, or that lost its peer is torch's own doing, and so a consequence; so is a kill of its
    workers by an inference engine whose call timed out.
    """
    aborts = {
        event.rank for event in job.events
        if event.kind in TIMED_OUT or cuda_error(event)
        or (event.kind == "python.exception" and event.rank is not None and _is_victim(event))
    }  # fmt: skip
    engine = bool(job.events_of("engine.timeout"))
    started = {rank.rank: rank.process.started for rank in job.ranks}
    reports: list[Failure] = []
    for event in job.events:
        for failure in _of_event(job, event):
            by_itself = failure.rank is not None and not aborts & {failure.rank, None}
            by_torch = (failure.signal == "ABRT" or failure.what == "Aborted") and bool(aborts) and not by_itself
            by_engine = engine and failure.signal in ("KILL", "QUIT")
            if failure.rank is None or failure.at is None or failure.at + CLOCKS_S >= started.get(failure.rank, -inf):
                reports.append(replace(failure, consequence=failure.consequence or by_torch or by_engine))
    reports.sort(key=lambda f: (f.at is None, f.at or 0.0, f.event.source, f.event.line))
    return tuple(reports)


def by_rank(all_failures: Sequence[Failure]) -> Mapping[int, tuple[Failure, ...]]:
    """Failures by the rank that they are about."""
    reports: dict[int, list[Failure]] = {}
    for failure in all_failures:
        if failure.rank is not None:
            reports.setdefault(failure.rank, []).append(failure)
    return {rank: tuple(failures_of) for rank, failures_of in sorted(reports.items())}


def _of_event(job: Job, event: LogEvent) -> Iterator[Failure]:
    manner, data = MANNERS.get(event.kind), event.data
    if manner is None or data.get("launcher") is True or data.get("survived") is True:
        return
    signal, code = signal_name(event), number_of(event, "exitcode")
    # a launcher reports an ended process without an exit code: Ray, vLLM, mpirun, torch's spawn
    gone = "exitcode" not in data and (text_of(event, "launcher") == "spawn" or text_of(event, "reason"))
    if event.kind == "launcher.exit" and not (code or signal or gone):
        return
    if event.kind in ("torch.cuda_error", "torch.watchdog_error", "nccl.warn") and not cuda_error(event):
        return
    consequence, owner = signal in ENDING_SIGNALS or _is_victim(event), _owner(job, event)
    several = numbers_of(event, "tasks")[:TASKS] if owner is None and not consequence else ()
    for rank in several or (owner,):
        yield Failure(rank, when(event), manner, _what(event, signal, code), signal, consequence, event)


def _owner(job: Job, event: LogEvent) -> int | None:
    """The rank that an event is about: by its own fields, else by the process id on its host."""
    named = next((n for n in (number_of(event, "failed_rank"), number_of(event, "task")) if n is not None), None)
    if named is None and not event.kind.startswith(("elastic.failed", "kernel.")):
        named = event.rank
    pid = number_of(event, "failed_pid") or number_of(event, "pid") or event.pid
    if named is not None or pid is None:
        return named
    matching = [
        rank.rank for rank in job.ranks
        if (pid in (rank.process.pid, rank.own_pid) or pid in rank.helpers)
        and (event.host in ("", rank.node) or (rank.node in job.nodes and event.host in names_of(job.nodes[rank.node])))
    ]  # fmt: skip
    return matching[0] if len(matching) == 1 else None


def _is_victim(event: LogEvent) -> bool:
    return event.data.get("consequence") is True or text_of(event, "signature") in VICTIM_SIGNATURES


def cuda_error(event: LogEvent) -> str:
    """The CUDA error that an event reports; empty for any other error, and for one that repeats an exception."""
    error = text_of(event, "error")
    if event.kind == "torch.watchdog_error":
        return error.removeprefix("CUDA error: ") if error.startswith("CUDA error: ") else ""
    if event.kind == "nccl.warn":
        return error if text_of(event, "signature") == "cuda" and "out of memory" not in error else ""
    return error if event.kind == "torch.cuda_error" and event.data.get("raised") is not True else ""


def _what(event: LogEvent, signal: str, code: int | None) -> str:
    """What happened, in a line: ``ValueError: bad shard``, ``CUDA error: …``, ``signal KILL``, ``exit code 1``."""
    name, message, reason = text_of(event, "type"), text_of(event, "message"), text_of(event, "reason")
    if name:
        return f"{name}: {message.splitlines()[0]}" if message else name
    if error := cuda_error(event):
        return f"CUDA error: {error}"
    if event.kind in ("python.exception", "python.fatal"):
        return text_of(event, "error") or "an exception, the end of its traceback is cut off"
    if what := text_of(event, "what"):
        return what.splitlines()[0][:240]  # what C++ threw; what malloc found
    if signal or code is not None:
        return f"signal {signal}" if signal else f"exit code {code}"
    if event.kind == "launcher.exit":
        text = f"reported only by its launcher, {text_of(event, 'launcher')}"
        return f"{text} ({reason[:120]})" if reason else text
    return event.text.splitlines()[0][:120] if event.text else event.kind
