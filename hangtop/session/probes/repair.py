"""Repairs of a session's nodes: what can be mended now, and a probe for each repair that says its exact command.

Looking changes nothing. What signals a process is a :class:`Probe`, run once somebody has said yes to its command.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from collectors.fleet.transport import Transport, TransportError
from collectors.probes.remote.repair import Signalled
from collectors.probes.running import answer, collect
from hangtop.diagnosis.finding import Unknown
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.node import Rank
from hangtop.diagnosis.phrasing import count, duration, size
from hangtop.diagnosis.rules.left_over import orphans
from hangtop.session.probes import Probe, ProbeRefused, ProbeResult, Say
from hangtop.session.session import Session

ENTRY = "collectors.probes.remote.repair"
SECONDS = 15.0
GRACE = 5.0
"""Seconds between SIGTERM and SIGKILL: a rank that saves at SIGTERM needs some."""

Signal = Literal["TERM", "CONT"]
_signalled = answer(Signalled)
GOOD = frozenset(("terminated", "killed", "continued", "gone"))
"""Outcomes after which a process is as it was wanted."""
UNKNOWN = "which ranks are the job's is not known there"


class Repairable(NamedTuple):
    """A rank that can be helped, and why it needs help."""

    rank: Rank
    why: str
    age: float
    """Seconds since it was started."""
    gpu_memory: int
    """Bytes that it holds on GPUs, where the driver tells pids."""

    @property
    def name(self) -> str:
        """``node1:812``."""
        return f"{self.rank.node}:{self.rank.process.pid}"

    @property
    def state(self) -> str:
        """Letter of /proc/PID/stat."""
        return self.rank.looks[-1].value.state if self.rank.looks else "?"

    def text(self) -> str:
        """Everything that decides whether it may be touched, in one line."""
        its = self.rank.process
        words = [f"rank {its.rank}", f"pid {its.pid}", f"{duration(self.age)} old", f"user {its.user}"]
        words += [f"state {self.state}", *([f"run {its.run_id}"] if its.run_id else [])]
        words += [f"{size(self.gpu_memory)} of GPU memory"] if self.gpu_memory else []
        return f"{self.rank.node}: {', '.join(words)}: {its.command}"

    def row(self) -> dict[str, Any]:
        """The same for scripts."""
        its = self.rank.process
        return {
            "node": self.rank.node, "pid": its.pid, "rank": its.rank, "user": its.user, "run_id": its.run_id,
            "command": its.command, "state": self.state, "age_s": round(self.age, 1), "gpu_memory": self.gpu_memory,
            "why": self.why,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class RepairSurvey:
    """What can be mended."""

    orphans: tuple[Repairable, ...]
    stopped: tuple[Repairable, ...]
    unknown: tuple[Unknown, ...]
    """Nodes of which it is not known which ranks run there, and why: nothing is proposed there."""


def survey(job: Job) -> RepairSurvey:
    """Orphans of earlier runs, and stopped ranks of the job."""
    silent: dict[str, list[str]] = {}
    for name, node in sorted(job.nodes.items()):
        known = node.sources.get("ranks")
        if known is None or known.state != "ok":
            why = ": ".join(filter(None, (UNKNOWN, node.why or (known.why if known else ""))))
            silent.setdefault(why, []).append(name)
    unknown = tuple(Unknown("ranks", tuple(nodes), why) for why, nodes in silent.items())
    left = orphans(job)
    dark = {name for one in unknown for name in one.nodes}
    living = [one for one in (*job.ranks, *job.others) if one.gone_at is None and one.node not in dark]
    helped = [_repairable(job, one, left.get((one.node, one.process.pid), "")) for one in living]
    stopped = tuple(
        one._replace(why="a stop signal holds it (state T)")
        for one in helped if one.rank in job.ranks and one.state == "T" and not one.why
    )  # fmt: skip
    return RepairSurvey(tuple(one for one in helped if one.why), stopped, unknown)


def _repairable(job: Job, rank: Rank, why: str) -> Repairable:
    used = [one for gpu in job.nodes[rank.node].gpus.values() for one in gpu.processes if one.pid == rank.process.pid]
    return Repairable(rank, why, max(0.0, job.now - rank.process.started), sum(one.memory or 0 for one in used))


def signal_command(pids: Sequence[int], signal: Signal) -> str:
    """What will be done on a node, as a shell would be told."""
    words = " ".join(map(str, pids))
    return f"kill -CONT {words}" if signal == "CONT" else f"kill -TERM {words}; sleep {GRACE:g}; kill -KILL {words}"


async def send_signals(
    transport: Transport, python: str, signal: Signal, targets: Sequence[tuple[int, float]], *, grace: float = GRACE
) -> list[Signalled]:
    """Signal (pid, start by the node's clock) on a node. Raises :class:`~collectors.fleet.transport.TransportError`."""
    arguments = {"signal": signal, "targets": [list(target) for target in targets], "grace": grace}
    *found, _ = await collect(
        transport, python, ENTRY, arguments, _signalled, grace + SECONDS, last=lambda one: one.outcome == "end"
    )
    return found


def signal_probe(
    session: Session, signal: Signal, processes: Sequence[Repairable], unknown: tuple[Unknown, ...] = ()
) -> Probe:
    """End these processes (SIGTERM, after a grace SIGKILL to what is left) or let them go on (SIGCONT)."""
    by_node: dict[str, list[Repairable]] = {}
    for one in processes:
        by_node.setdefault(one.rank.node, []).append(one)
    offsets = {name: node.clock_offset or 0.0 for name, node in session.job().nodes.items()}

    async def send(node: str) -> list[tuple[Repairable, Signalled]]:
        targets = [(one.rank.process.pid, one.rank.process.started + offsets[node]) for one in by_node[node]]
        why = "the node did not say"
        try:
            answers = await send_signals(session.transport(node), session.python(node), signal, targets)
        except TransportError as error:
            answers, why = [], f"not known: {error}"
        told = {answer.pid: answer for answer in answers}
        pids = [one.rank.process.pid for one in by_node[node]]
        return [
            (one, told.get(pid) or Signalled(pid, "unreachable", why))
            for one, pid in zip(by_node[node], pids, strict=True)
        ]

    async def run(_: Say) -> ProbeResult:
        if session.options.read_only:
            raise ProbeRefused("--read-only refuses repairs: they signal processes")
        results = [one for part in await asyncio.gather(*map(send, by_node)) for one in part]
        bad = sum(answer.outcome not in GOOD for _, answer in results)
        lines = [f"{'✓' if answer.outcome in GOOD else '✗'} {one.name}: {answer.text}" for one, answer in results]
        rows = [one.row() | {"outcome": answer.outcome, "text": answer.text} for one, answer in results]
        summary = f"{count(len(results) - bad, 'process', 'processes')} mended" + (f", {bad} not" if bad else "")
        return ProbeResult(
            title, "failed" if bad or (unknown and not results) else "ok", summary, tuple(lines), {"results": rows},
            unknown=unknown,
        )  # fmt: skip

    title = f"{'End' if signal == 'TERM' else 'Continue'} {count(len(processes), 'process', 'processes')}"
    after = f"SIGTERM, after {GRACE:g} s SIGKILL to what is left" if signal == "TERM" else "SIGCONT"
    commands = [
        f"on {node}: {signal_command([one.rank.process.pid for one in some], signal)}" for node, some in by_node.items()
    ]
    if commands:
        commands.append("Each signal is sent only if the pid still has the start time that was seen.")
    where = f"{count(len(processes), 'process', 'processes')} on {count(len(by_node), 'node')}"
    risk = "\n".join(f"{one.text()}\n    {one.why}" for one in processes)
    return Probe(title, f"{where}, {after}", "\n".join(commands), run, risk, tuple(by_node), signals=True)
