"""Repairs of a session's nodes: what can be mended now, and a probe for each repair that says its exact command.

Looking changes nothing. What signals a process is a :class:`Probe`, run once somebody has said yes to its command.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from collectors.fleet.transport import TransportError
from collectors.probes.repair import ask
from collectors.probes.repair.free import FreePort, choose
from collectors.probes.repair.remote.words import Curable, PortsInUse, Signalled
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
    process: Curable
    age: float
    """Seconds since it was started."""
    gpu_memory: int | None
    """Bytes that it holds on GPUs, where the driver tells pids."""

    @property
    def name(self) -> str:
        """``node1:812``."""
        return f"{self.node}:{self.process.pid}"

    def told(self) -> str:
        """Everything that decides whether it may be touched, in one line."""
        one = self.process
        words = [f"rank {one.rank}" + ("" if one.role == "rank" else f" ({one.role})"), f"pid {one.pid}"]
        words += [f"{duration(self.age)} old", f"user {one.user}", f"state {one.state}"]
        if one.run_id:
            words.append(f"run {one.run_id}")
        if self.gpu_memory:
            words.append(f"{size(self.gpu_memory)} of GPU memory")
        if one.ports:
            words.append(f"listens on port {listed([str(port) for port in one.ports])}")
        return f"{self.node}: {', '.join(words)}: {one.command}"

    def row(self) -> dict[str, Any]:
        """The same for scripts."""
        one = self.process
        return {
            "node": self.node, "pid": one.pid, "rank": one.rank, "role": one.role, "user": one.user,
            "run_id": one.run_id, "age_s": round(self.age, 1), "state": one.state, "gpu_memory": self.gpu_memory,
            "ports": one.ports, "command": one.command, "sure": one.sure, "why": one.why,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Looked:
    """What the nodes showed."""

    orphans: tuple[Repairable, ...] = ()
    stopped: tuple[Repairable, ...] = ()
    unknown: dict[str, str] = field(default_factory=dict)
    """Nodes that could not be looked at, and why: unknown, never "nothing there"."""


async def look(session: ProbeSession, *, young: float | None = None) -> Looked:
    """Ask all nodes for orphans and stopped processes.

    A node on which it is not known which ranks are the running job's is not asked: none of them must be taken for an
    orphan. A session that has just connected gets some seconds to learn it.
    """
    job = await settled(session)
    answers = await asyncio.gather(*(_look(session, job, node, young) for node in sorted(job.nodes)))
    processes = [one for found, _ in answers for one in found]
    return Looked(
        tuple(one for one in processes if one.process.what == "orphan"),
        tuple(one for one in processes if one.process.what == "stopped"),
        {node: why for node, (_, why) in zip(sorted(job.nodes), answers, strict=True) if why},
    )


async def settled(session: ProbeSession) -> Job:
    """The job once all nodes that answer have told their ranks, or have had time to."""
    until = time.monotonic() + RANKS_SECONDS
    job = session.job()
    while time.monotonic() < until and any(map(_still_learning, job.nodes.values())):
        await asyncio.sleep(0.05)
        job = session.job()
    return job


def _still_learning(node: Node) -> bool:
    return node.link == "live" and "ranks" not in node.sources


async def _look(session: ProbeSession, job: Job, node: str, young: float | None) -> tuple[list[Repairable], str]:
    known = job.nodes[node].sources.get("ranks")
    if known is None or known.state != "ok":
        why = job.nodes[node].why or (known.why if known else "")
        return [], f"which ranks are the job's is not known there{f': {why}' if why else ''}"
    keep = [rank.process.pid for rank in job.ranks if rank.node == node and rank.gone_at is None]
    try:
        found = await ask.look(session.transport(node), session.python(node), keep, young=young)
    except TransportError as error:
        return [], job.nodes[node].why or str(error)
    now = job.now + (job.nodes[node].clock_offset or 0.0)
    return [Repairable(node, one, max(0.0, now - one.started), _on_gpus(job, node, one.pid)) for one in found], ""


def _on_gpus(job: Job, node: str, pid: int) -> int | None:
    held = [used.memory for gpu in job.nodes[node].gpus for used in gpu.processes if used.pid == pid]
    return sum(memory or 0 for memory in held) if held else None


# --- signals -----------------------------------------------------------------------------------------------------


def signal_probe(
    session: ProbeSession, title: str, signal: ask.Signal, processes: Sequence[Repairable], grace: float = ask.GRACE
) -> Probe:
    """End these processes (SIGTERM, after ``grace`` seconds SIGKILL to what is left) or let them go on (SIGCONT)."""
    by_node: dict[str, list[Repairable]] = {}
    for one in processes:
        by_node.setdefault(one.node, []).append(one)

    async def run(_: Say) -> ProbeResult:
        if session.options.read_only:
            raise ProbeRefused("--read-only refuses repairs: they signal processes")
        parts = await asyncio.gather(*(_send(session, node, some, signal, grace) for node, some in by_node.items()))
        told = [one for part in parts for one in part]
        bad = sum(said.outcome not in GOOD for _, said in told)
        lines: list[Line] = [
            [mark(good=said.outcome in GOOD), (f"{one.name}: ", "strong"), (said.text, "")] for one, said in told
        ]
        rows = [one.row() | {"outcome": said.outcome, "text": said.text} for one, said in told]
        summary = f"{count(len(told) - bad, 'process', 'processes')} mended" + (f", {bad} not" if bad else "")
        return ProbeResult(title, "failed" if bad else "ok", summary, tuple(lines), {"results": rows})

    ends = signal == "TERM"
    after = f"SIGTERM, after {grace:g} s SIGKILL to what is left" if ends else "SIGCONT"
    where = f"{count(len(processes), 'process', 'processes')} on {count(len(by_node), 'node')}"
    commands = [
        f"on {node}: {ask.signal_command([one.process.pid for one in some], signal, grace)}"
        for node, some in by_node.items()
    ]
    commands.append(
        "Each signal is sent only if the pid still has the start time that was seen."
        + (" SIGKILL goes only to what is left after the wait." if ends else "")
        + f" Sent by: {ask.sender()} (the program comes through its input)"
    )
    risk = "\n".join(one.told() for one in processes)
    return Probe(title, f"{where}, {after}", "\n".join(commands), run, risk, tuple(by_node))


async def _send(
    session: ProbeSession, node: str, processes: Sequence[Repairable], signal: ask.Signal, grace: float
) -> list[tuple[Repairable, Signalled]]:
    targets = [(one.process.pid, one.process.start_ticks) for one in processes]
    try:
        said = await ask.send(session.transport(node), session.python(node), signal, targets, grace=grace)
    except TransportError as error:
        said = [Signalled(pid, "unreachable", f"not known: {error}") for pid, _ in targets]
    by_pid = {one.pid: one for one in said}
    silent = "the node did not say"
    return [(one, by_pid.get(one.process.pid, Signalled(one.process.pid, "unreachable", silent))) for one in processes]


def chosen(processes: Iterable[Repairable], names: Sequence[str], *, doubtful: bool = False) -> tuple[Repairable, ...]:
    """Those named as ``node:pid``; without names, those that are certain (``doubtful``: the others too)."""
    if names:
        return tuple(one for one in processes if one.name in names)
    return tuple(one for one in processes if one.process.sure or doubtful)


# --- a free port -------------------------------------------------------------------------------------------------


async def free_port(session: ProbeSession, wanted: int) -> tuple[FreePort, dict[str, str]]:
    """Propose a rendezvous port that is free on all nodes that answer; and the others, with the reason."""
    job = session.job()
    names = sorted(job.nodes)
    answers = await asyncio.gather(*(_ports(session, job, node) for node in names))
    told = {node: found for node, found in zip(names, answers, strict=True) if isinstance(found, PortsInUse)}
    silent = {node: found for node, found in zip(names, answers, strict=True) if isinstance(found, str)}
    silent |= {node: found.error for node, found in told.items() if found.error}
    return choose(told, wanted), silent


async def _ports(session: ProbeSession, job: Job, node: str) -> PortsInUse | str:
    try:
        return await ask.ports_in_use(session.transport(node), session.python(node))
    except TransportError as error:
        return job.nodes[node].why or str(error)


def port_text(found: FreePort, silent: Mapping[str, str]) -> list[str]:
    """The proposal as people read it: what was passed over, then the port and where to write it."""
    lines = [f"  {why}" for why in found.passed]
    lines += [f"  not known of {node}: {why}" for node, why in silent.items()]
    if found.port is None:
        return [*lines, "no port that is free on all nodes was found"]
    risk = "" if found.outside else "  (inside the range that kernels give to clients: it may be taken meanwhile)"
    return [
        *lines,
        f"port {found.port} is free on all nodes that answered{risk}",
        f"  MASTER_PORT={found.port}",
        f"  torchrun --rdzv_endpoint=MASTER:{found.port}   or   torchrun --master_port={found.port}",
    ]
