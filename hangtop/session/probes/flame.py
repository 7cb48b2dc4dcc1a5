"""Flame graphs of a session's ranks: recorded on all nodes at once, saved here, with the heaviest frames as lines."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from pathlib import Path

from collectors.fleet.transport import TransportError
from collectors.node.stacks.flamerecord import FlameRecording
from collectors.probes.flame import Flame, profile, record, save, shown_command
from hangtop.diagnosis.phrasing import count, rank_text, ranks_on
from hangtop.session.probes import Probe, ProbeRefused, ProbeResult, Say
from hangtop.session.session import Session

SHOWN = 24
"""Lines of the tree that are shown; the file has all."""
LEAST = 0.02
"""Share of all samples below which a frame is not shown."""


def flame_probe(session: Session, ranks: Collection[int] | None, folder: Path, *, seconds: float) -> Probe:
    """Sample these ranks, or all, without pausing them, into an SVG file in ``folder``.

    Raises :class:`ProbeRefused` if there is no such rank.
    """
    wanted = [rank for rank in session.job().ranks if rank.gone_at is None and (ranks is None or rank.rank in ranks)]
    if not wanted:
        raise ProbeRefused("no rank that could be sampled was seen")
    by_node: dict[str, list[int]] = {}
    for rank in wanted:
        by_node.setdefault(rank.node, []).append(rank.process.pid)

    async def of_node(node: str, pids: list[int]) -> list[FlameRecording]:
        try:
            return await record(session.transport(node), pids, seconds=seconds)
        except TransportError as error:
            return [FlameRecording(pid, "", f"unreachable: {error}") for pid in pids]

    async def run(say: Say) -> ProbeResult:
        say(f"sampling on {count(len(by_node), 'node')} for {seconds:g} s")
        parts = await asyncio.gather(*(of_node(node, pids) for node, pids in by_node.items()))
        recorded = {(node, one.pid): one for node, some in zip(by_node, parts, strict=True) for one in some}
        name = time.strftime("flame-%Y%m%d-%H%M%S")
        of_rank = [(rank, recorded[rank.node, rank.process.pid]) for rank in wanted]
        tree = profile([(ranks_on([rank.rank], [rank.node]), one.stacks) for rank, one in of_rank], name)
        saved = folder / f"{name}.svg"
        try:
            await asyncio.to_thread(save, tree, saved)
        except OSError as error:
            raise ProbeRefused(f"the flame graph could not be written: {error}") from None
        return result(tree, saved, {rank.rank: one.error for rank, one in of_rank if one.error})

    commands = [f"on {node}: {shown_command(pids, seconds)}" for node, pids in by_node.items()]
    brief = f"{count(len(wanted), 'rank')}, sampled for {seconds:g} s without pausing them"
    return Probe("Flame graph", brief, "\n".join(commands), run, nodes=tuple(by_node))


def result(tree: Flame, saved: Path, errors: dict[int, str]) -> ProbeResult:
    """The result, with the tree's frames from the root; ``errors`` is rank → why it has no samples."""
    total = tree.samples
    heaviest = [
        f"{100 * frame.samples / total:5.1f} %  {'  ' * depth}{frame.name}"
        for depth, frame in tree.walk()
        if depth and frame.samples >= LEAST * total
    ]
    more = [f"… {len(heaviest) - SHOWN} more lines in the file"] if len(heaviest) > SHOWN else []
    missing = [f"{rank_text(rank)}: {why}" for rank, why in sorted(errors.items())]
    figures = {
        "svg": str(saved), "samples": total,
        "errors": {str(rank): why for rank, why in sorted(errors.items())},
    }  # fmt: skip
    lines = [*heaviest[:SHOWN], *more, "", f"saved: {saved}", *missing]
    outcome = "failed" if errors or not total else "ok"
    return ProbeResult(f"Flame graph, {count(total, 'sample')}", outcome, f"{total} samples", tuple(lines), figures)
