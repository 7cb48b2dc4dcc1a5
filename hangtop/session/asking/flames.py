"""Flame graphs of a session's ranks: recorded on their nodes at once, saved here, and a tree to look at."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from collectors.fleet.transport import TransportError
from hangtop.diagnosis.job import Job, Rank
from hangtop.diagnosis.phrasing import ranks_on
from hangtop.session.asking.probing import Connections
from hangtop.session.options import SessionOptions

if TYPE_CHECKING:
    from collectors.probes.flame import Flame, FoldedStacks, ProfileFiles

RATE = 50
"""Samples a second."""


class Watched(Connections, Protocol):
    """What a recording needs of a session."""

    options: SessionOptions

    def job(self) -> Job:
        """The frozen picture of this moment."""


@dataclass(frozen=True, slots=True)
class FlameGraph:
    """What a recording brought. ``errors`` says for each rank without samples why there are none."""

    tree: Flame
    saved: ProfileFiles
    errors: dict[int, str]


def chosen(session: Watched, ranks: Collection[int] | None) -> list[Rank]:
    """The living ranks among these, or all."""
    return [rank for rank in session.job().ranks if rank.gone_at is None and (ranks is None or rank.rank in ranks)]


def flame_commands(session: Watched, ranks: Collection[int] | None, seconds: float) -> dict[str, str]:
    """What will be run on which node, to show before it is."""
    from collectors.probes.flame import shown_command

    by_node = _pids(chosen(session, ranks))
    return {node: shown_command(pids, seconds, RATE, session.options.py_spy or "") for node, pids in by_node.items()}


async def record_flames(
    session: Watched,
    ranks: Collection[int] | None,
    *,
    seconds: float,
    folder: Path,
    name: str,
    on_progress: Callable[[float, int], None],
    stop: asyncio.Event,
) -> FlameGraph:
    """Sample these ranks for ``seconds``, without pausing them, and save ``name.svg`` and ``name.speedscope.json``.

    ``on_progress`` hears seconds done and nodes at work; setting ``stop`` ends it early with what there is, cancelling
    without. Raises :class:`OSError` when the files cannot be written.
    """
    from collectors.probes.flame import profile, save

    wanted = chosen(session, ranks)
    by_node = _pids(wanted)
    found = await asyncio.gather(
        *(
            _of_node(session, node, pids, seconds, lambda done: on_progress(done, len(by_node)), stop)
            for node, pids in by_node.items()
        )
    )
    recorded = {(node, each.pid): each for node, results in zip(by_node, found, strict=True) for each in results}
    stacks, errors = [], {}
    for rank in wanted:
        answer = recorded[rank.node, rank.process.pid]
        if answer.error:
            errors[rank.rank] = answer.error
        stacks.append((ranks_on([rank.rank], [rank.node]), answer.stacks))
    tree = profile(stacks, name)
    return FlameGraph(tree, await asyncio.to_thread(save, tree, folder, name), errors)


def _pids(ranks: Collection[Rank]) -> dict[str, list[int]]:
    by_node: dict[str, list[int]] = {}
    for rank in ranks:
        by_node.setdefault(rank.node, []).append(rank.process.pid)
    return by_node


async def _of_node(
    session: Watched,
    node: str,
    pids: list[int],
    seconds: float,
    on_progress: Callable[[float], None],
    stop: asyncio.Event,
) -> list[FoldedStacks]:
    from collectors.probes.flame import FoldedStacks, record

    try:
        return await record(
            session.transport(node), pids, seconds=seconds, rate=RATE, py_spy=session.options.py_spy or "",
            python=session.python(node), on_progress=lambda done, _running: on_progress(done), stop=stop,
        )  # fmt: skip
    except TransportError as error:
        return [FoldedStacks(pid, 0.0, "", f"unreachable: {error}") for pid in pids]
