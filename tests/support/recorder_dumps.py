"""Flight recorder dumps of a run on paper, as torch would write them, with the holes of real ones.

The shapes follow ``FlightRecorder.hpp`` of torch's wheels 2.4.1 to 2.14.1: which fields a version has,
that parts of a batch never close, that ``started`` needs timing, that groups without traffic are not configured.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

from tests.support.megatron import Launch, Members, Run

BEGAN = 1_790_000_000_000_000_000
TICK = 40_000_000
"""Nanoseconds of a round of the run on paper."""


@dataclass(frozen=True)
class Style:
    """How the dumps of a job are written."""

    version: str = "2.10"
    timing: bool = False
    """TORCH_NCCL_ENABLE_TIMING: states become ``started``."""
    kept: int = 2000
    """Entries that the ring holds."""


def dumps_of(run: Run, style: Style, lost: frozenset[int] = frozenset()) -> dict[int, bytes]:
    """The dump of every rank that leaves one."""
    return {rank: dump_of(run, rank, style) for rank in run.program if rank not in lost}


def dump_of(run: Run, rank: int, style: Style) -> bytes:
    """One rank's dump."""
    launches = run.launched[rank]
    ids: dict[str, int] = {}
    entries: list[dict[str, Any]] = []
    for launch in launches:
        group = launch.op.group
        assert group is not None
        ids.setdefault(group.name, len(ids))
        entries += _entries(launch, ids[group.name], style, clock=(rank * 7919) % 90_000_000)
    for number, entry in enumerate(entries):
        entry["record_id"] = number
    entries = entries[-style.kept :]
    groups = {launch.op.group.name: launch.op.group for launch in launches if launch.op.group is not None}
    document: dict[str, Any] = {
        "version": style.version,
        "pg_config": {name: _config(group) for name, group in groups.items()},
        "pg_status": {str(ids[name]): _status(launches, name, style) for name in groups},
        "entries": entries,
    }
    if style.version == "2.10":
        document["comm_lib_version"] = "2.29.7"
    return pickle.dumps(document, protocol=2)


def _config(group: Members) -> dict[str, str]:
    return {"name": group.name, "desc": group.description, "ranks": str(list(group.ranks))}


def _status(launches: list[Launch], name: str, style: Style) -> dict[str, Any]:
    own = [one for one in launches if one.op.group and one.op.group.name == name and one.op.what == "collective"]
    done = [one.number for one in own if one.done]
    return {
        "last_enqueued_collective": max((one.number for one in own), default=-1),
        "last_started_collective": max(done, default=-1) if style.timing else -1,
        "last_completed_collective": max(done, default=-1),
    }


def _entries(launch: Launch, group_id: int, style: Style, clock: int) -> list[dict[str, Any]]:
    op, group = launch.op, launch.op.group
    assert group is not None
    created = BEGAN + launch.created * TICK + clock
    own = group.ranks.index(launch.rank)
    if op.what == "collective":
        sizes = [[op.elements]] if op.elements else []
        return [_entry(launch, group_id, style, op.name, sizes, created, open_ended=False)]
    made = []
    for side, peer in op.halves:
        name = f"{side} {own}{'->' if side == 'send' else '<-'}{group.ranks.index(peer)}"
        made.append(_entry(launch, group_id, style, name, [[op.elements]], created, open_ended=op.batched))
    if op.batched:
        made.append(_entry(launch, group_id, style, "coalesced", [], created, open_ended=False))
    return made


def _times(sizes: list[list[int]], ranks: int) -> list[list[int]]:
    return [[size * ranks for size in shape] for shape in sizes]


def _entry(
    launch: Launch, group_id: int, style: Style, name: str, sizes: list[list[int]], created: int, *, open_ended: bool
) -> dict[str, Any]:
    group, pair = launch.op.group, launch.op.what == "pair"
    assert group is not None
    done = launch.done and not open_ended
    state = "completed" if done else "started" if style.timing and launch.ready and not open_ended else "scheduled"
    entry: dict[str, Any] = {
        "record_id": 0,
        "pg_id": group_id,
        "process_group": (group.name, group.description),
        "collective_seq_id": 0 if pair else launch.number,
        "p2p_seq_id": launch.number if pair else 0,
        "op_id": launch.number,
        "profiling_name": f"nccl:{name}",
        "time_created_ns": created,
        "input_sizes": _times(sizes, len(group.ranks) if "scatter" in name else 1),
        "input_dtypes": ["Float"] * len(sizes),
        "output_sizes": _times(sizes, len(group.ranks) if "gather" in name else 1),
        "output_dtypes": ["Float"] * len(sizes),
        "state": state,
        "time_discovered_started_ns": created + 1000 if done and style.timing else None,
        "time_discovered_completed_ns": created + 2000 if done else None,
        "retired": done,
        "timeout_ms": 600_000,
        "is_p2p": pair,
        "frames": [{"name": "train_step", "filename": "/opt/train/loop.py", "line": 40}],
    }
    if style.version == "2.10":
        entry |= {"thread_id": "140", "thread_name": "pt_main_thread"}
    return entry
