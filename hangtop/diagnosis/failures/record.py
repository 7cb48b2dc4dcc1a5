"""What logs, launchers and kernels tell of the end of a rank: one :class:`Failure` for each of their words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf
from signal import Signals
from typing import Literal

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.addresses import names_of
from hangtop.diagnosis.evidence.event_fields import number_of, numbers_of, text_of, when
from hangtop.diagnosis.job import Job

Manner = Literal["exception", "signal", "exit", "memory", "gpu_memory", "device"]
"""How a rank failed: ``memory`` is the kernel's or a batch system's word that the host's memory ran out,
``gpu_memory`` CUDA out of memory, ``device`` an error of CUDA that no exception tells."""

FATAL_KINDS: dict[str, Manner] = {
    "python.exception": "exception",
    "python.fatal": "signal",
    "process.signal": "signal",
    "torch.out_of_memory": "gpu_memory",
    "torch.cuda_error": "device",
    "torch.watchdog_error": "device",
    "nccl.warn": "device",
    "elastic.error_file": "exception",
    "elastic.failure": "exit",
    "elastic.failed": "exit",
    "launcher.exit": "exit",
    "kernel.oom": "memory",
    "kernel.segfault": "signal",
    "slurm.out_of_memory": "memory",
}
ENDING_SIGNALS = frozenset({"TERM", "SIGTERM", "INT", "SIGINT", "HUP", "SIGHUP"})
"""Signals by which launchers and batch systems end the rest of a job."""
VICTIM_SIGNATURES = frozenset({"connection", "interrupt", "child_failed", "nccl"})
"""Signatures of exceptions that follow from the end of another rank."""
TIMED_OUT = ("torch.watchdog_timeout", "torch.taken_down", "gloo.timeout")
"""Events after which torch aborts the process itself."""
LAUNCHERS = {"ray": "Ray", "vllm": "vLLM", "mpi": "mpirun"}
TASKS = 64
"""Tasks of one line of a launcher that are taken one by one."""
CLOCKS_S = 1.0
"""Seconds by which the start of a process, its log and our idea of its node's clock may differ."""
_SIGNALS = {int(number): number.name.removeprefix("SIG") for number in Signals}


@dataclass(frozen=True, slots=True)
class Failure:
    """One word about the end of one rank. ``rank`` is None where nothing tells which rank it is about."""

    rank: int | None
    host: str
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
        """Where the rank raised, as ``load (data.py:88)``; empty where that is not known."""
        return text_of(self.event, "frame")

    @property
    def signature(self) -> str:
        """The class of the exception, as the log's rules name it."""
        return text_of(self.event, "signature")

    @property
    def bare(self) -> bool:
        """An exit code without a signal, a traceback or a message."""
        return self.manner == "exit" and not self.signal and not text_of(self.event, "type")

    @property
    def cut(self) -> bool:
        """A traceback whose end is missing: it does not say what was raised."""
        return self.event.kind == "python.exception" and not text_of(self.event, "type")

    @property
    def reasoned(self) -> bool:
        """An abort whose log line gives its reason."""
        data = self.event.data
        return (data.get("spoken") is True and data.get("cut") is not True) or data.get("heap") is True


def signal_name(event: LogEvent) -> str:
    """``KILL`` for SIGKILL, -9 or 137; empty when the event names no signal."""
    if event.kind == "kernel.segfault":
        return "SEGV"
    name = text_of(event, "signal").removeprefix("SIG")
    code = number_of(event, "exitcode")
    if name or code is None:
        return name
    return _SIGNALS.get(-code if code < 0 else code - 128, "")


def failures(job: Job) -> tuple[Failure, ...]:
    """Every word about the end of a rank of this run, the earliest first; worked out once for a picture."""
    return job.once(_by_run)[0]


def failures_before_restart(job: Job) -> tuple[Failure, ...]:
    """The words about processes that ended before a launcher started their ranks anew."""
    return job.once(_by_run)[1]


def _by_run(job: Job) -> tuple[tuple[Failure, ...], tuple[Failure, ...]]:
    found = _every(job)
    started: dict[int | None, float] = {rank.rank: rank.process.started for rank in job.ranks} if found else {}
    earlier = {id(f) for f in found if f.at is not None and f.at + CLOCKS_S < started.get(f.rank, -inf)}
    now = tuple(failure for failure in found if id(failure) not in earlier)
    return now, tuple(failure for failure in found if id(failure) in earlier)


def _every(job: Job) -> tuple[Failure, ...]:
    aborted = {(event.source, event.rank) for event in job.events if event.kind in TIMED_OUT or cuda_error(event)}
    engine = any(event.kind == "engine.timeout" for event in job.events)
    found = (_with_reason(failure, aborted, engine) for event in job.events for failure in _of_event(job, event))
    return tuple(sorted(found, key=lambda f: (f.at is None, f.at or 0.0, f.event.source, f.event.line)))


def _with_reason(failure: Failure, aborted: set[tuple[str, int | None]], engine: bool) -> Failure:
    """An abort of a rank whose collective timed out or whose GPU failed is torch's own doing, and so a consequence.

    So is a kill of its workers by an inference engine whose call timed out.
    """
    if failure.signal == "ABRT" or failure.what == "Aborted":
        ranks = {rank for _, rank in aborted}
        torch = bool(ranks) and (failure.rank is None or bool(ranks & {failure.rank, None}))
        return replace(failure, consequence=True) if torch else failure
    killed = engine and failure.manner == "signal" and failure.signal in ("KILL", "QUIT")
    return replace(failure, consequence=True) if killed else failure


def by_rank(all_failures: tuple[Failure, ...]) -> Mapping[int, tuple[Failure, ...]]:
    """Failures by the rank that they are about."""
    found: dict[int, list[Failure]] = {}
    for failure in all_failures:
        if failure.rank is not None:
            found.setdefault(failure.rank, []).append(failure)
    return {rank: tuple(own) for rank, own in sorted(found.items())}


def owner_of(job: Job, event: LogEvent) -> int | None:
    """The rank that an event is about: by its own word, else by the process id on its host."""
    for name in ("failed_rank", "task"):
        number = number_of(event, name)
        if number is not None:
            return number
    if event.rank is not None and not event.kind.startswith(("elastic.failed", "kernel.")):
        return event.rank
    if event.kind == "python.exception" and number_of(event, "about") is not None:
        return number_of(event, "about")
    pid = number_of(event, "failed_pid") or number_of(event, "pid") or event.pid
    if pid is None:
        return None
    matching = [
        rank.rank
        for rank in job.ranks
        if (pid in (rank.process.pid, rank.own_pid) or any(helper.pid == pid for helper in rank.helpers))
        and (not event.host or event.host == rank.node or _is_called(job, rank.node, event.host))
    ]
    return matching[0] if len(matching) == 1 else None


def _is_called(job: Job, node: str, host: str) -> bool:
    known = job.nodes.get(node)
    return known is not None and host in names_of(known)


def _of_event(job: Job, event: LogEvent) -> Iterator[Failure]:
    manner = FATAL_KINDS.get(event.kind)
    if manner is None or event.data.get("launcher") is True or event.data.get("survived") is True:
        return
    signal, code = signal_name(event), number_of(event, "exitcode")
    if event.kind == "launcher.exit" and not (code or signal or _without_code(event)):
        return
    if manner == "device" and not cuda_error(event):
        return
    victim = signal in ENDING_SIGNALS or text_of(event, "signature") in VICTIM_SIGNATURES
    consequence = event.data.get("consequence") is True or victim
    owner = owner_of(job, event)
    several = numbers_of(event, "tasks")[:TASKS] if owner is None and not consequence else ()
    for rank in several or (owner,):
        yield Failure(rank, event.host, when(event), manner, _what(event, signal, code), signal, consequence, event)


def _without_code(event: LogEvent) -> bool:
    """A launcher's word, without an exit code, that a process is gone: Ray's, vLLM's, mpirun's, torch's spawn."""
    if "exitcode" in event.data:
        return False
    return text_of(event, "launcher") == "spawn" or bool(text_of(event, "reason"))


def cuda_error(event: LogEvent) -> str:
    """The error of CUDA that an event tells; empty where it tells another one, or repeats an exception's."""
    error = text_of(event, "error")
    if event.kind == "torch.watchdog_error":
        return error.removeprefix("CUDA error: ") if error.startswith("CUDA error: ") else ""
    if event.kind == "nccl.warn":
        return error if text_of(event, "signature") == "cuda" and "out of memory" not in error else ""
    told = event.data.get("raised") is True or text_of(event, "signature") == "invalid_device"
    return error if event.kind == "torch.cuda_error" and not told else ""


def _what(event: LogEvent, signal: str, code: int | None) -> str:
    name, message = text_of(event, "type"), text_of(event, "message")
    if name:
        return f"{name}: {message.splitlines()[0]}" if message else name
    if event.kind == "torch.out_of_memory":
        return "CUDA out of memory"
    if cuda_error(event):
        return f"CUDA error: {cuda_error(event)}"
    if event.kind == "python.exception":
        return "an exception, the end of its traceback is cut off"
    if event.kind == "python.fatal":
        return text_of(event, "error") or "Fatal Python error"
    reason = text_of(event, "what")
    if event.kind == "process.signal" and ("::" in reason.partition(": ")[0] or event.data.get("spoken")):
        return reason.splitlines()[0][:240]  # what C++ threw, and nobody caught
    if event.data.get("heap") is True:
        return f"{reason.splitlines()[0][:240]} (signal ABRT)"
    if signal or code is not None:
        return f"signal {signal}" if signal else f"exit code {code}"
    if event.kind == "launcher.exit":
        launcher, reason = text_of(event, "launcher"), text_of(event, "reason")
        of = f", of process {event.pid}" if event.pid else ""
        told = f"no word but {LAUNCHERS.get(launcher, launcher)}'s ({reason[:120]}{of})"
        return told if reason else "an exception that was not recorded"
    return event.text.splitlines()[0][:120] if event.text else event.kind
