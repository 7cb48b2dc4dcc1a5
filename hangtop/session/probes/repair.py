"""Repairs of a session's nodes: what can be mended now, and a probe for each repair that says its exact command.

Looking changes nothing. What signals a process is a :class:`Probe`, run once somebody has said yes to its command.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from collectors.fleet.transport import TransportError
from collectors.probes import repair
from collectors.probes.remote.repair import RepairCandidate, Signalled
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import count, duration, listed, size
from hangtop.session.probes import Line, Probe, ProbeRefused, ProbeResult, ProbeSession, Say, mark

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
        words = [f"rank {one.rank}", f"pid {one.pid}", f"{duration(self.age)} old", f"user {one.user}"]
        words += [f"state {one.state}", *([f"run {one.run_id}"] if one.run_id else [])]
        words += [f"{size(self.gpu_memory)} of GPU memory"] if self.gpu_memory else []
        words += [f"listens on port {listed([str(port) for port in one.ports])}"] if one.ports else []
        return f"{self.node}: {', '.join(words)}: {one.command}"

    def row(self) -> dict[str, Any]:
        """The same for scripts."""
        told = self.process._asdict()
        row = {"node": self.node, "age_s": round(self.age, 1), "gpu_memory": self.gpu_memory}
        return row | {name: value for name, value in told.items() if name not in ("what", "start_ticks", "started")}


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
    orphan.
    """
    job = session.job()
    answers = await asyncio.gather(*(_look(session, job, node) for node in sorted(job.nodes)))
    processes = [one for found, _ in answers for one in found]
    return RepairSurvey(
        tuple(one for one in processes if one.process.what == "orphan"),
        tuple(one for one in processes if one.process.what == "stopped"),
        {node: why for node, (_, why) in zip(sorted(job.nodes), answers, strict=True) if why},
    )


async def _look(session: ProbeSession, job: Job, name: str) -> tuple[list[Repairable], str]:
    """What can be helped on a node, or why that is not known."""
    node = job.nodes[name]
    known = node.sources.get("ranks")
    if known is None or known.state != "ok":
        why = node.why or (known.why if known else "")
        return [], f"which ranks are the job's is not known there{f': {why}' if why else ''}"
    keep = [rank.process.pid for rank in job.ranks if rank.node == name and rank.gone_at is None]
    try:
        found = await repair.look(session.transport(name), session.python(name), keep)
    except TransportError as error:
        return [], node.why or str(error)
    now = job.now + (node.clock_offset or 0.0)
    used = [one for gpu in node.gpus for one in gpu.processes]
    return [
        Repairable(name, one, max(0.0, now - one.started), sum(use.memory or 0 for use in used if use.pid == one.pid))
        for one in found
    ], ""


def signal_probe(
    session: ProbeSession, title: str, signal: repair.Signal, processes: Sequence[Repairable]
) -> Probe:  # fmt: skip
    """End these processes (SIGTERM, after a grace SIGKILL to what is left) or let them go on (SIGCONT)."""
    by_node: dict[str, list[Repairable]] = {}
    for one in processes:
        by_node.setdefault(one.node, []).append(one)

    async def send(node: str) -> list[tuple[Repairable, Signalled]]:
        targets = [(one.process.pid, one.process.start_ticks) for one in by_node[node]]
        why = "the node did not say"
        try:
            answers = await repair.send(session.transport(node), session.python(node), signal, targets)
        except TransportError as error:
            answers, why = [], f"not known: {error}"
        told = {one.pid: one for one in answers}
        return [
            (one, told.get(one.process.pid) or Signalled(one.process.pid, "unreachable", why)) for one in by_node[node]
        ]

    async def run(_: Say) -> ProbeResult:
        if session.options.read_only:
            raise ProbeRefused("--read-only refuses repairs: they signal processes")
        results = [one for part in await asyncio.gather(*map(send, by_node)) for one in part]
        bad = sum(answer.outcome not in GOOD for _, answer in results)
        lines: list[Line] = [
            [mark(good=answer.outcome in GOOD), (f"{one.name}: ", "strong"), (answer.text, "")]
            for one, answer in results
        ]
        rows = [one.row() | {"outcome": answer.outcome, "text": answer.text} for one, answer in results]
        summary = f"{count(len(results) - bad, 'process', 'processes')} mended" + (f", {bad} not" if bad else "")
        return ProbeResult(title, "failed" if bad else "ok", summary, tuple(lines), {"results": rows})

    after = f"SIGTERM, after {repair.GRACE:g} s SIGKILL to what is left" if signal == "TERM" else "SIGCONT"
    commands = [
        f"on {node}: {repair.signal_command([one.process.pid for one in some], signal)}"
        for node, some in by_node.items()
    ]
    commands.append(
        "Each signal is sent only if the pid still has the start time that was seen. "
        f"Sent by: {repair.sender()} (the program comes through its input)"
    )
    where = f"{count(len(processes), 'process', 'processes')} on {count(len(by_node), 'node')}"
    risk = "\n".join(one.text() for one in processes)
    return Probe(title, f"{where}, {after}", "\n".join(commands), run, risk, tuple(by_node))
