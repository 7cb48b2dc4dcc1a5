"""What became of each rank, as logs, launchers and kernels tell it: who failed first, and who fell over afterwards."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.addresses import names_of
from hangtop.diagnosis.evidence.event_fields import number_of, numbers_of, text_of, when
from hangtop.diagnosis.job import Job

Manner = Literal["exception", "memory", "signal", "exit", "kernel_oom", "kernel_segfault", "gpu_memory", "device"]
"""How a rank failed: ``memory`` is Slurm's or the kernel's word about its cgroup, ``gpu_memory`` CUDA out of memory,
``device`` an error of CUDA that no exception tells."""

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
    "kernel.oom": "kernel_oom",
    "kernel.segfault": "kernel_segfault",
    "slurm.out_of_memory": "memory",
}
VICTIM_SIGNALS = frozenset({"TERM", "SIGTERM", "INT", "SIGINT", "HUP", "SIGHUP"})
"""Signals by which launchers end the rest of a job."""
NAMES = {"ray": "Ray", "vllm": "vLLM"}
"""Launchers that tell of workers which are gone without their exit codes."""
_LEFT = {
    "exiting improperly": "an exit without MPI_Finalize",
    "exited": "an exit of which mpiexec's other words are cut off",
}
_THROWN = re.compile(r"\w+(?:::\w+)+: ")
"""``std::runtime_error: …``, as C++ tells it when nobody catches it."""
DEVICE = ("torch.cuda_error", "torch.watchdog_error")
"""Words by which an error of a GPU is known."""
TIMED_OUT = ("torch.watchdog_timeout", "torch.taken_down", "gloo.timeout")
"""Words after which torch aborts the process itself."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One word about the end of one rank. ``rank`` is None where nothing tells whose it is."""

    rank: int | None
    host: str
    at: float | None
    manner: Manner
    what: str
    """``ValueError: bad shard``, ``signal KILL``, ``exit code 1``."""
    frame: str
    signal: str
    consequence: bool
    event: LogEvent

    @property
    def source(self) -> str:
        """``file:line``, or the name of the witness."""
        return f"{self.event.source}:{self.event.line}" if self.event.line else self.event.source


TASKS = 64
"""Tasks of one line of a launcher that are taken one by one."""
CLOCKS_S = 1.0
"""Seconds by which the start of a process, its log and our idea of its node's clock may differ."""


def signal_name(event: LogEvent) -> str:
    """``KILL`` for SIGKILL, -9 or 137; empty when the event names no signal."""
    name = text_of(event, "signal").removeprefix("SIG")
    if name:
        return name
    code = number_of(event, "exitcode")
    if code is None:
        return ""
    number = -code if code < 0 else code - 128 if 128 < code < 160 else 0
    return {1: "HUP", 2: "INT", 6: "ABRT", 7: "BUS", 8: "FPE", 9: "KILL", 11: "SEGV", 15: "TERM"}.get(number, "")


def failures(job: Job, *, earlier: bool = False) -> tuple[Failure, ...]:
    """List every word about a rank's end, the earliest first; those about processes before a restart are left out.

    ``earlier``: these alone. Worked out once for a picture.
    """
    return job.once(_before_a_restart if earlier else _of_this_run)


def _of_this_run(job: Job) -> tuple[Failure, ...]:
    return _failures(job, earlier=False)


def _before_a_restart(job: Job) -> tuple[Failure, ...]:
    return _failures(job, earlier=True)


def _failures(job: Job, *, earlier: bool) -> tuple[Failure, ...]:
    aborted = {event.rank for event in job.events if event.kind in TIMED_OUT}
    engines = any(event.kind == "engine.timeout" for event in job.events)
    faulted = {_report(event) for event in job.events if event.kind == "launcher.exit" and _by_itself(event)}
    device = {(event.source, event.rank) for event in job.events if event.kind in DEVICE and cuda_error(event)}
    found = [
        replace(failure, consequence=True)
        if failure.signal == "KILL" and failure.event.kind == "launcher.exit" and _report(failure.event) in faulted
        else _by_device(_by_watchdog(failure, aborted, engines), device)
        for event in job.events
        for failure in _of_event(job, event)
    ]
    started = {rank.rank: rank.process.started for rank in job.ranks} if found else {}
    chosen = [f for f in found if _before(f, started) == earlier]
    return tuple(sorted(chosen, key=lambda f: (f.at is None, f.at or 0.0, f.event.source, f.event.line)))


def _report(event: LogEvent) -> tuple[str, str]:
    """Whose report of all its processes an event is part of: a launcher in one log."""
    return text_of(event, "launcher"), event.source


def _by_itself(event: LogEvent) -> bool:
    """Whether the process was ended by a fault of its own: MPICH's launcher then kills all others, and reports them."""
    faults = ("SEGV", "ABRT", "BUS", "FPE", "ILL")
    return text_of(event, "launcher") in ("hydra", "mpd") and signal_name(event) in faults


def _before(failure: Failure, started: Mapping[int, float]) -> bool:
    """Whether it tells of a process that was there before the rank's present one."""
    known = failure.at is not None and failure.rank is not None
    return known and (failure.at or 0.0) < started.get(failure.rank or 0, 0.0) - CLOCKS_S


def _by_watchdog(failure: Failure, aborted: set[int | None], engines: bool) -> Failure:
    """An abort of a rank whose collective timed out is torch's own doing; an engine kills its workers then."""
    if engines and failure.manner == "signal" and failure.signal in ("KILL", "QUIT"):
        return replace(failure, consequence=True)
    if failure.signal != "ABRT" or not aborted or not (failure.rank is None or aborted & {failure.rank, None}):
        return failure
    return replace(failure, consequence=True)


def _by_device(failure: Failure, device: set[tuple[str, int | None]]) -> Failure:
    """Torch aborts a rank whose GPU failed, and Python tells of that abort first."""
    source, rank = failure.event.source, failure.rank
    ranks = {owner for log, owner in device if log == source}
    if failure.event.kind != "python.fatal" or failure.what != "Aborted" or not ranks & {rank, None}:
        return failure
    return replace(failure, consequence=True)


def same_failure(one: Failure, other: Failure) -> bool:
    """Two ranks that raised the same at the same line; a bare exit code is no likeness."""
    told = one.manner == "exception" and other.manner == "exception"
    return told and one.what == other.what and one.frame == other.frame


def same_exit(one: Failure, other: Failure) -> bool:
    """Two ranks that ended with the same exit code in one second, or of which one line tells."""
    alike = (one.manner, one.what, one.consequence) == (other.manner, other.what, False)
    line = one.event.line > 0 and (one.event.source, one.event.line) == (other.event.source, other.event.line)
    return alike and (line or one.at == other.at is not None)


def timed_out(job: Job, failure: Failure) -> bool:
    """Whether the watchdog of the failure's rank says that a collective timed out, or any does and no rank is named."""
    ranks = {event.rank for event in job.events if event.kind == TIMED_OUT[0]}
    return bool(ranks) and (failure.rank is None or failure.rank in ranks)


def by_rank(all_failures: tuple[Failure, ...]) -> Mapping[int, tuple[Failure, ...]]:
    """Sort failures by the rank that they speak of."""
    ranks = sorted({failure.rank for failure in all_failures if failure.rank is not None})
    return {rank: tuple(failure for failure in all_failures if failure.rank == rank) for rank in ranks}


def owner_of(job: Job, event: LogEvent) -> int | None:
    """Tell which rank an event speaks of: by its own word, else by the process id on its host."""
    for name in ("failed_rank", "task"):
        number = number_of(event, name)
        if number is not None:
            return number
    if event.rank is not None and not event.kind.startswith(("elastic.failed", "kernel.")):
        return event.rank
    if event.kind == "python.exception" and number_of(event, "about") is not None:
        return number_of(event, "about")
    pid = number_of(event, "failed_pid") or number_of(event, "pid") or event.pid
    matching = [
        rank
        for rank in job.ranks
        if pid is not None
        and (pid in (rank.process.pid, rank.own_pid) or any(helper.pid == pid for helper in rank.helpers))
        and (not event.host or event.host == rank.node or _is_called(job, rank.node, event.host))
    ]
    return matching[0].rank if len(matching) == 1 else None


def _is_called(job: Job, node: str, host: str) -> bool:
    known = job.nodes.get(node)
    return known is not None and host in names_of(known)


def _of_event(job: Job, event: LogEvent) -> Iterator[Failure]:
    manner = FATAL_KINDS.get(event.kind)
    if manner is None or event.data.get("launcher") is True or event.data.get("survived") is True:
        return
    signal = signal_name(event)
    code = number_of(event, "exitcode")
    if (event.kind == "launcher.exit" and not code and not signal and not _of_ray(event) and not _raised(event)) or (
        manner == "device" and not cuda_error(event)
    ):
        return
    consequence = event.data.get("consequence") is True or signal in VICTIM_SIGNALS
    if text_of(event, "signature") == "interrupt":
        consequence = True
    owner = owner_of(job, event)
    several = numbers_of(event, "tasks")[:TASKS] if owner is None and not consequence else ()
    for rank in several or (owner,):
        yield Failure(
            rank=rank,
            host=event.host,
            at=when(event),
            manner=manner,
            what=_what(event, signal, code),
            frame=text_of(event, "frame"),
            signal=signal,
            consequence=consequence,
            event=event,
        )


def _of_ray(event: LogEvent) -> bool:
    """Ray's, vLLM's or Paddle's word that a worker is gone, without an exit code."""
    return text_of(event, "launcher") in NAMES and bool(text_of(event, "reason"))


def _raised(event: LogEvent) -> bool:
    """torch.multiprocessing's word that a process raised, whose traceback is to follow; mpiexec's of one that left."""
    if "exitcode" in event.data:
        return False
    return text_of(event, "launcher") == "spawn" or text_of(event, "reason") in _LEFT


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
        before, traceback, _ = event.text.partition("Traceback (")
        introduced = bool(traceback) and "\n" not in before
        said = before.rpartition("] ")[2].strip(" ,:") if introduced else ""
        return said[:200] or "an exception, the end of its traceback is cut off"
    if event.kind == "python.fatal":
        return text_of(event, "error") or "Fatal Python error"
    thrown = event.kind == "process.signal" and _THROWN.match(text_of(event, "what"))
    if thrown or event.data.get("spoken") is True or event.data.get("heap") is True:
        return text_of(event, "what").splitlines()[0][:240] + (" (signal ABRT)" if event.data.get("heap") else "")
    if signal:
        return f"signal {signal}"
    if code is not None:
        return f"exit code {code}"
    if event.kind == "launcher.exit" and _of_ray(event):
        of = f", of process {event.pid}" if event.pid else ""
        return f"no word but {NAMES[text_of(event, 'launcher')]}'s ({text_of(event, 'reason')[:120]}{of})"
    if event.kind == "launcher.exit" and _raised(event):
        return _LEFT.get(text_of(event, "reason"), "an exception that was not recorded")
    return event.text.splitlines()[0][:120] if event.text else event.kind
