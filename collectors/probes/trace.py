"""Profiler traces that lie on nodes: found there, reduced there, each figure sent here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from collectors.fleet.transport import Transport
from collectors.probes.remote.trace import ListedTrace
from collectors.probes.running import Limits, collect, one_of
from collectors.samples.traces import RankTrace

ENTRY = "collectors.probes.remote.trace"
LIMITS = Limits(line=16 << 20, total=128 << 20)
READING = 1800.0
"""Seconds for all traces of one node: fifty of a gigabyte."""

_decode = one_of(RankTrace, ListedTrace)


async def find(transport: Transport, python: str, patterns: Sequence[str]) -> list[ListedTrace]:
    """The files that paths, folders and globs name on a node. Raises :class:`TransportError`."""
    found = await _run(transport, python, {"patterns": list(patterns)})
    return [one for one in found if isinstance(one, ListedTrace) and not one.done]


async def read(
    transport: Transport, python: str, paths: Sequence[str], progress: Callable[[str], None] = lambda _: None
) -> list[RankTrace]:
    """The traces in these files of a node, reduced there. Raises :class:`TransportError`."""
    count = 0

    def hear(one: object) -> None:
        nonlocal count
        count += isinstance(one, RankTrace)
        progress(f"{transport.name}: {count} of {len(paths)} traces read")

    found = await _run(transport, python, {"paths": list(paths)}, hear)
    return [one._replace(node=transport.name) for one in found if isinstance(one, RankTrace)]


async def _run(
    transport: Transport, python: str, arguments: Mapping[str, object], hear: Callable[[object], None] = lambda _: None
) -> list[object]:
    def last(one: object) -> bool:
        hear(one)
        return isinstance(one, ListedTrace) and one.done

    return await collect(transport, python, ENTRY, arguments, _decode, READING, last=last, limits=LIMITS)


def share_out(found: Mapping[str, Sequence[ListedTrace]]) -> dict[str, list[str]]:
    """Which node reads which file, about equally many each.

    A file of the same path, size and time on several nodes is one file on shared storage, and is read by one of them.
    """
    holders: dict[tuple[ListedTrace, str], list[str]] = {}
    for node, files in found.items():
        for file in files:
            holders.setdefault((file, node if file.size < 0 else ""), []).append(node)
    paths: dict[str, list[str]] = {node: [] for node in found}
    for (file, _), nodes in holders.items():
        paths[min(nodes, key=lambda node: len(paths[node]))].append(file.path)
    return paths
