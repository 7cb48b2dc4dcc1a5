"""Repairs of a session's nodes: what can be mended now, and a probe for each repair that says its exact command.

Looking changes nothing. What signals a process is a :class:`Probe`, run once somebody has said yes to its command.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from collectors.fleet.transport import TransportError
from collectors.probes import repair
from collectors.probes.remote.repair import RepairCandidate, Signalled
from hangtop.diagnosis.job import Job, Node
from hangtop.diagnosis.phrasing import count, duration, listed, size
from hangtop.session.probes import Line, Probe, ProbeRefused, ProbeResult, ProbeSession, Say, mark

RANKS_SECONDS = 5.0
"""How long a session that has just connected may take to know a node's ranks."""
GOOD = frozenset(("terminated", "killed", "continued", "gone"))
"""Outcomes after which a process is as it was wanted."""


@dataclass(frozen=True, slots=True)
class Repairable:
    """A process that can be helped, and its node."""

    node: str
    process: RepairCandidate
    age: float
    """Seconds since it was started."""
    gpu_memory: int | None
    """Bytes that it holds on GPUs, where the driver tells pids."""

    @property
    def name(self) -> str:
        """``node1:812``."""
        return f"{self.node}:{self.process.pid}"

    def text(self) -> str:
        """Everything that decides whether it may be touched, in one line."""
        one = self.process
        words = [f"rank {one.rank}", f"pid {one.pid}"]
        words += [f"{duration(self.age)} old", f"user {one.user}", f"state {one.state}"]
        words += [f"run {one.run_id}"] if one.run_id else []
        words += [f"{size(self.gpu_memory)} of GPU memory"] if self.gpu_memory else []
        words += [f"listens on port {listed([str(port) for port in one.ports])}"] if one.ports else []
        return f"{self.node}: {', '.join(words)}: {one.command}"

    def row(self) -> dict[str, Any]:
        """The same for scripts."""
        told = self.process._asdict()
        kept = ("pid", "rank", "user", "run_id", "state", "ports", "command", "why")
        row = {name: told[name] for name in kept}
        return {"node": self.node, **row, "age_s": round(self.age, 1), "gpu_memory": self.gpu_memory}


@dataclass(frozen=True, slots=True)
class RepairSurvey:
    """What the nodes showed."""

    orphans: tuple[Repairable, ...] = ()
    stopped: tuple[Repairable, ...] = ()
    unknown: dict[str, str] = field(default_factory=dict)
    """Nodes that could not be looked at, and why: unknown, never "nothing there"."""


async def look(session: ProbeSession) -> RepairSurvey:
    """Ask all nodes for orphans and stopped processes.

    A node on which it is not known which ranks are the running job's is not asked: none of them must be taken for an
    orphan. A session that has just connected gets some seconds to learn it.
    """
    until = time.monotonic() + RANKS_SECONDS
    job = session.job()
    while time.monotonic() < until and any(map(_still_learning, job.nodes.values())):
        await asyncio.sleep(0.05)
        job = session.job()
    answers = await asyncio.gather(*(_look(session, job, node) for node in sorted(job.nodes)))
    processes = [one for found, _ in answers for one in found]
    return RepairSurvey(
        tuple(one for one in processes if one.process.what == "orphan"),
        tuple(one for one in processes if one.process.what == "stopped"),
        {node: why for node, (_, why) in zip(sorted(job.nodes), answers, strict=True) if why},
    )


def _still_learning(node: Node) -> bool:
    return node.link == "live" and "ranks" not in node.sources


async def _look(session: ProbeSession, job: Job, node: str) -> tuple[list[Repairable], str]:
    known = job.nodes[node].sources.get("ranks")
    if known is None or known.state != "ok":
        why = job.nodes[node].why or (known.why if known else "")
        return [], f"which ranks are the job's is not known there{f': {why}' if why else ''}"
    keep = [rank.process.pid for rank in job.ranks if rank.node == node and rank.gone_at is None]
    try:
        found = await repair.look(session.transport(node), session.python(node), keep)
    except TransportError as error:
        return [], job.nodes[node].why or str(error)
    now = job.now + (job.nodes[node].clock_offset or 0.0)
    held: dict[int, int] = {}
    for used in (used for gpu in job.nodes[node].gpus for used in gpu.processes):
        held[used.pid] = held.get(used.pid, 0) + (used.memory or 0)
    return [Repairable(node, one, max(0.0, now - one.started), held.get(one.pid)) for one in found], ""


def signal_probe(
    session: ProbeSession, title: str, signal: repair.Signal, processes: Sequence[Repairable]
) -> Probe:  # fmt: skip
    """End these processes (SIGTERM, after a grace SIGKILL to what is left) or let them go on (SIGCONT)."""
    by_node: dict[str, list[Repairable]] = {}
    for one in processes:
        by_node.setdefault(one.node, []).append(one)

    async def run(_: Say) -> ProbeResult:
        if session.options.read_only:
            raise ProbeRefused("--read-only refuses repairs: they signal processes")
        parts = await asyncio.gather(*(_send(session, node, some, signal) for node, some in by_node.items()))
        results = [one for part in parts for one in part]
        bad = sum(answer.outcome not in GOOD for _, answer in results)
        lines: list[Line] = [
            [mark(good=answer.outcome in GOOD), (f"{one.name}: ", "strong"), (answer.text, "")]
            for one, answer in results
        ]
        rows = [one.row() | {"outcome": answer.outcome, "text": answer.text} for one, answer in results]
        summary = f"{count(len(results) - bad, 'process', 'processes')} mended" + (f", {bad} not" if bad else "")
        return ProbeResult(title, "failed" if bad else "ok", summary, tuple(lines), {"results": rows})

    ends = signal == "TERM"
    where = f"{count(len(processes), 'process', 'processes')} on {count(len(by_node), 'node')}"
    after = f"SIGTERM, after {repair.GRACE:g} s SIGKILL to what is left" if ends else "SIGCONT"
    commands = [
        f"on {node}: {repair.signal_command([one.process.pid for one in some], signal)}"
        for node, some in by_node.items()
    ]
    commands.append(
        "Each signal is sent only if the pid still has the start time that was seen."
        + (" SIGKILL goes only to what is left after the wait." if ends else "")
        + f" Sent by: {repair.sender()} (the program comes through its input)"
    )
    risk = "\n".join(one.text() for one in processes)
    return Probe(title, f"{where}, {after}", "\n".join(commands), run, risk, tuple(by_node))


async def _send(
    session: ProbeSession, node: str, processes: Sequence[Repairable], signal: repair.Signal
) -> list[tuple[Repairable, Signalled]]:
    targets = [(one.process.pid, one.process.start_ticks) for one in processes]
    why = "the node did not say"
    try:
        answers = await repair.send(session.transport(node), session.python(node), signal, targets)
    except TransportError as error:
        answers, why = [], f"not known: {error}"
    by_pid = {one.pid: one for one in answers}
    return [(one, by_pid.get(one.process.pid, Signalled(one.process.pid, "unreachable", why))) for one in processes]
