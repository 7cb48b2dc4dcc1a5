"""Repairs: which ranks a signal would help now, and a probe that sends it after showing its exact command."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Literal, NamedTuple

from collectors.fleet.transport import Transport, TransportError
from collectors.probes.remote.repair import Signalled
from collectors.probes.running import answer, collect
from hangtop.diagnosis.finding import Unknown
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.node import Rank
from hangtop.diagnosis.phrasing import count, duration, folded_names, size
from hangtop.diagnosis.rules.nodes import left_over
from hangtop.session.probes import Probe, ProbeRefused, ProbeResult, Say, unknowns
from hangtop.session.session import Session

ENTRY = "collectors.probes.remote.repair"
SECONDS = 15.0
GRACE = 5.0
"""Seconds between SIGTERM and SIGKILL, for a rank that saves a checkpoint at SIGTERM."""

Signal = Literal["TERM", "CONT"]
_signalled = answer(Signalled)
GOOD = frozenset(("terminated", "killed", "continued", "gone"))
"""Outcomes that count as success."""


class Repairable(NamedTuple):
    """A rank that a signal would help."""

    node: str
    pid: int
    rank: int
    started: float
    text: str
    """All that the user needs to decide whether to signal it, in one line."""
    why: str
    """Why it needs the signal."""

    @property
    def name(self) -> str:
        """``node1:812``."""
        return f"{self.node}:{self.pid}"


class RepairSurvey(NamedTuple):
    """The ranks that can be repaired."""

    orphans: tuple[Repairable, ...]
    """Ranks left behind by an earlier run: SIGTERM."""
    stopped: tuple[Repairable, ...]
    """Ranks of the job in state T: SIGCONT."""
    unknown: tuple[Unknown, ...]
    """Nodes whose ranks are not known, and why: no repair is proposed there."""


def survey(job: Job) -> RepairSurvey:
    """The ranks that can be repaired; changes nothing."""
    unseen: dict[str, str] = {}
    for name, node in sorted(job.nodes.items()):
        known = node.sources.get("ranks")
        if known is None or known.state != "ok":
            why = node.why or (known.why if known else "")
            unseen[name] = f"which ranks are the job's is not known there: {why}".rstrip(": ")
    others, of_job = (
        [rank for rank in ranks if rank.gone_at is None and rank.node not in unseen]
        for ranks in (job.others, job.ranks)
    )
    stopped = [rank for rank in of_job if rank.pulses and rank.pulses[-1].value.state == "T"]
    return RepairSurvey(
        tuple(_repairable(job, rank, why) for rank in others if (why := left_over(rank, job.others))),
        tuple(_repairable(job, rank, "a stop signal holds it (state T)") for rank in stopped),
        unknowns("ranks", unseen.items()),
    )


def _repairable(job: Job, rank: Rank, why: str) -> Repairable:
    its = rank.process
    state = rank.pulses[-1].value.state if rank.pulses else "?"
    gpus = job.nodes[rank.node].gpus.values()
    memory = sum(one.memory or 0 for gpu in gpus for one in gpu.processes if one.pid == its.pid)
    words = [f"rank {its.rank}", f"pid {its.pid}", f"{duration(max(0.0, job.now - its.started))} old"]
    words += [f"user {its.user}", f"state {state}", *([f"run {its.run_id}"] if its.run_id else [])]
    words += [f"{size(memory)} of GPU memory"] if memory else []
    text = f"{rank.node}: {', '.join(words)}: {its.command}"
    return Repairable(rank.node, its.pid, its.rank, its.started, text, why)


async def send_signals(
    transport: Transport, signal: Signal, targets: Sequence[tuple[int, float]], *, grace: float = GRACE
) -> list[Signalled]:
    """Signal (pid, start on the node's clock) pairs on a node; outcome of each. Raises :class:`TransportError`."""
    arguments = {"signal": signal, "targets": [list(target) for target in targets], "grace": grace}
    return await collect(transport, ENTRY, arguments, _signalled, grace + SECONDS)


def signal_probe(
    session: Session, signal: Signal, processes: Sequence[Repairable], unknown: tuple[Unknown, ...] = ()
) -> Probe:
    """End these processes (SIGTERM, then SIGKILL to the rest after :data:`GRACE`) or continue them (SIGCONT)."""
    by_node: dict[str, list[Repairable]] = {}
    for one in processes:
        by_node.setdefault(one.node, []).append(one)

    async def send(node: str) -> list[tuple[Repairable, Signalled]]:
        offset = session.state.nodes[node].clock_offset or 0.0
        why = "the node did not say"
        try:
            targets = [(one.pid, one.started + offset) for one in by_node[node]]
            answers = await send_signals(session.transport(node), signal, targets)
        except TransportError as error:
            answers, why = [], f"not known: {error}"
        by_pid = {answer.pid: answer for answer in answers}
        return [(one, by_pid.get(one.pid) or Signalled(one.pid, "unreachable", why)) for one in by_node[node]]

    async def run(_: Say) -> ProbeResult:
        if session.options.read_only:
            raise ProbeRefused("--read-only refuses repairs: they signal processes")
        results = [one for part in await asyncio.gather(*map(send, by_node)) for one in part]
        bad = sum(answer.outcome not in GOOD for _, answer in results)
        lines = [f"{'✓' if answer.outcome in GOOD else '✗'} {one.name}: {answer.text}" for one, answer in results]
        rows = [one._asdict() | {"outcome": answer.outcome, "text": answer.text} for one, answer in results]
        summary = f"{count(len(results) - bad, 'process', 'processes')} mended" + (f", {bad} not" if bad else "")
        summary = summary if results else f"nothing to mend on {folded_names(session.state.nodes)}"
        outcome = "failed" if bad or (unknown and not results) else "ok"
        return ProbeResult(title, outcome, summary, tuple(lines), {"results": rows}, unknown=unknown)

    number = count(len(processes), "process", "processes")
    title = f"{'End' if signal == 'TERM' else 'Continue'} {number}"
    after = f"SIGTERM, after {GRACE:g} s SIGKILL to what is left" if signal == "TERM" else "SIGCONT"
    commands = []
    for node, some in by_node.items():
        pids = " ".join(str(one.pid) for one in some)
        kill = f"kill -TERM {pids}; sleep {GRACE:g}; kill -KILL {pids}" if signal == "TERM" else f"kill -CONT {pids}"
        commands.append(f"on {node}: {kill}")
    if commands:
        commands.append("Each signal is sent only if the pid still has the start time that was seen.")
    brief = f"{number} on {count(len(by_node), 'node')}, {after}"
    risk = "\n".join(f"{one.text}\n    {one.why}" for one in processes)
    return Probe(title, brief, "\n".join(commands), run, risk, tuple(by_node), signals=True)
