"""The :class:`~hangtop.diagnosis.job.Job` that files of a run tell of. It has no present: silence means nothing."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping

from collectors.node.gpus.nvidia_smi_rows import Row, bus_key
from collectors.node.network.perfquery import PortBlock
from collectors.samples.gpus import NvlinkCounters
from collectors.samples.logs import CommSpeed, LogEvent
from collectors.samples.ranks import RankProcess
from collectors.samples.values import MOST_RANK
from hangtop.diagnosis.counters import Counters
from hangtop.diagnosis.job import Gpu, Job, Look, Node, Port, Rank
from hangtop.diagnosis.traces import picture
from hangtop.diagnosis.witnesses.event_fields import number_of
from hangtop.session.folder.contents import Contents
from hangtop.session.folder.joining import Process, joined, ranks_of_processes, same_communicators

GPUS, PORTS, LOOKS = 256, 256, 20_000
"""GPUs and ports of one node, and looks at one of them, that count."""
NAMELESS = "node"
"""The node of files that name none."""


def job_of(contents: Contents, now: float | None = None) -> Job:
    """Put a folder's contents together; ``now`` is the present moment, unless given."""
    processes = ranks_of_processes(contents)
    events = joined(contents.events, processes)
    progress = same_communicators(contents.progress, processes)
    homes = _homes(processes, events)
    ranks = tuple(_rank(rank, host, pid) for rank, (host, pid) in sorted(homes.items()))
    stacks = sorted(contents.stacks, key=lambda entry: (entry[0], entry[2].pid, entry[2].at))
    return Job(
        now=time.time() if now is None else now,
        watched=0.0,
        live=False,
        nodes={name or NAMELESS: _node(name, contents) for name in _names(contents, events, homes)},
        ranks=ranks,
        world_size=_world(contents, events),
        stacks=tuple(dump for _, _, dump in stacks),
        stack_nodes=tuple(node for node, _, _ in stacks),
        stack_ranks=dict(_stack_ranks(contents, processes)),
        events=tuple(events),
        event_nodes=tuple(event.host for event in events),
        passed=tuple(contents.passed),
        progress=tuple(progress),
        recorders=tuple(contents.recorders),
        traces=picture(contents.traces) if contents.traces else None,
        ras=tuple(Look(report.at, report) for report in sorted(contents.ras, key=lambda report: report.at)),
    )


def _homes(processes: Mapping[Process, int], events: list[LogEvent]) -> dict[int, Process]:
    """Where each rank ran, as far as hosts are named; the last process of a rank is the one that counts."""
    homes: dict[int, Process] = {rank: process for process, rank in processes.items() if process[0]}
    for event in events:
        rank, pid = event.data.get("failed_rank"), event.data.get("failed_pid")
        if event.kind == "elastic.failure" and isinstance(rank, int) and isinstance(pid, int) and event.host:
            homes.setdefault(rank, (event.host, pid))
    return homes


def _rank(rank: int, host: str, pid: int) -> Rank:
    unknown = dict.fromkeys(RankProcess._fields)
    known = {
        "pid": pid,
        "started": 0.0,
        "rank": rank,
        "env": {},
        "versions": {},
        "launcher": "",
        "run_id": "",
        "parent": 0,
    }
    words = dict.fromkeys(
        ("master_addr", "command", "cwd", "executable", "container", "user", "stdout", "stderr", "nccl_log"), ""
    )
    return Rank(rank, host, RankProcess(**{**unknown, **words, "uid": -1, **known}))  # type: ignore[arg-type]


def _names(contents: Contents, events: list[LogEvent], homes: Mapping[int, Process]) -> list[str]:
    found = {host for host, _ in homes.values()} | {event.host for event in events}
    found |= {*contents.gpus, *contents.gpu_faults, *contents.nvlinks, *contents.ports, *contents.counters}
    found |= {node for node, _, _ in contents.stacks} | {speed.host for speed in contents.speeds}
    devices = any(found.get("") for found in (contents.gpus, contents.gpu_faults, contents.nvlinks, contents.ports))
    devices = devices or any(event.kind.startswith("kernel.") and not event.host for event in events)
    return sorted(found - {""}) + ([""] if devices else [])


def _node(name: str, contents: Contents) -> Node:
    return Node(
        name=name or NAMELESS,
        link="offline",
        gpus=tuple(_gpus(name, contents)),
        ports=tuple(_ports(name, contents)),
        speeds=_speeds(name, contents),
        gpu_fault=next((fault for fault in contents.gpu_faults.get(name, []) if fault.gpu is None), None),
    )


def _speeds(name: str, contents: Contents) -> tuple[CommSpeed, ...]:
    """With the largest communicator's rank for the global one: in it they are the same."""
    largest = max((speed.size for speed in contents.speeds), default=0)
    whole = {(speed.host, speed.pid): speed.group_rank for speed in contents.speeds if speed.size == largest}
    own = (speed for speed in contents.speeds if speed.host == name)
    return tuple(speed._replace(global_rank=whole.get((speed.host, speed.pid))) for speed in own)


def _gpus(name: str, contents: Contents) -> Iterator[Gpu]:
    rows = contents.gpus.get(name, [])
    apps = list(dict.fromkeys(contents.gpu_processes.get(name, [])))
    faults = {fault.gpu: fault for fault in contents.gpu_faults.get(name, []) if fault.gpu is not None}
    by_index: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        by_index[row.facts.gpu].append(row)
    links: dict[int, dict[int, NvlinkCounters]] = defaultdict(dict)
    for link in contents.nvlinks.get(name, [])[-LOOKS:]:
        links[link.gpu][link.link] = link
    for index in sorted(by_index.keys() | faults.keys() | links.keys())[:GPUS]:
        own = by_index.get(index, [])[-LOOKS:]
        yield Gpu(
            index=index,
            facts=own[-1].facts if own else None,
            looks=tuple(Look(float(number), row.sample) for number, row in enumerate(own)),
            processes=tuple(app for app in apps if own and bus_key(app.bus_id) == bus_key(own[-1].facts.bus_id)),
            fault=faults.get(index),
            nvlinks=tuple(links[index].values()) if index in links else (),
        )


def _ports(name: str, contents: Contents) -> Iterator[Port]:
    by_port: dict[int, list[PortBlock]] = defaultdict(list)
    for block in contents.counters.get(name, [])[-LOOKS:]:
        by_port[block.port].append(block)
    for facts in contents.ports.get(name, [])[:PORTS]:
        blocks = [block.values for block in by_port[facts.port] if block.lid in (None, facts.lid)]
        merged = {counter: value for values in blocks for counter, value in values.items()}
        first = {counter: value for values in reversed(blocks) for counter, value in values.items()}
        yield Port(facts, Counters.of(merged), Counters.of(first))


def _stack_ranks(contents: Contents, processes: Mapping[Process, int]) -> Iterator[tuple[Process, int]]:
    by_pid = {pid: rank for (_, pid), rank in processes.items()}
    owners = {(node, dump.rank_pid): rank for node, rank, dump in contents.stacks}
    known = {
        owner: rank if rank is not None else processes.get(owner, by_pid.get(owner[1]))
        for owner, rank in owners.items()
    }
    if known and not any(rank is not None for rank in known.values()):
        # nothing says who is who: count them, so that they can be told apart at all
        known = {owner: number for number, owner in enumerate(sorted(known))}
    for owner, rank in known.items():
        if rank is not None:
            yield owner, rank


def _world(contents: Contents, events: list[LogEvent]) -> int | None:
    sizes = [size for *_, size in contents.members]
    sizes += [progress.size for progress in contents.progress]
    sizes += [len(ranks) for dump in contents.recorders for ranks in dump.groups.values()]
    for event in events:
        expected = number_of(event, "expected") if event.kind == "torch.store_timeout" else None
        if expected is not None:
            sizes.append(expected)
    return max((size for size in sizes if size <= MOST_RANK), default=0) or None
