"""Nodes that do not answer, were rebooted, lack CPUs or storage, are wired differently, or have ranks of an old run."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations
from math import inf
from statistics import median, median_low

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.evidence.event_fields import text_of
from hangtop.diagnosis.evidence.events import event_line, events_on
from hangtop.diagnosis.failures.record import by_rank, failures
from hangtop.diagnosis.finding import Evidence, Finding, Observer, next_step, of_ranks
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.node import Node, Rank
from hangtop.diagnosis.phrasing import count, duration, folded_names, listed, ranks_text
from hangtop.diagnosis.roster import ranks_on_node, world_size
from hangtop.diagnosis.waits.statuses import not_responding

CPU_WAITED_SHARE = 25
"""Ours: per cent of the time that a rank is runnable without a CPU; alone on its cores it waits under 1 %."""
CPU_CROWDED = 2.0
"""Ours: runnable tasks for each CPU of a node; each gets half of the CPU that it wants."""
CPU_PEERS_SHARE = 3
"""Ours: least multiple of what the other ranks wait, and of the other nodes' load."""
BOOT_SLACK_S = 5.0
"""Seconds by which the time of a boot and the time of a rank's end may be off."""
WIRED_ALIKE = 3
"""Ours: least number of nodes to compare; of two that differ, neither is known to be the odd one."""
BY_HAND = frozenset(("", "env", "jax", "lightning"))
"""Ways to start ranks that need no launcher."""
OWN_CPUS = "Give each rank CPUs of its own (--cpus-per-task, --cpu-bind, taskset); look what else runs there."
OTHERS_ANSWER = "The other nodes answer: look at this one's console, power and network port."
LOGIN = (
    "Mend the login: ssh to it in a shell shows the same. If its host key changed, find out why before you accept it."
)
NONE_ANSWERS = "No node answers: where the reason does not say why, check this machine's network first."


def node_unreachable(job: Job) -> Iterator[Finding]:
    """node_unreachable: a node never answered, or no longer answers.

    If no node answers, those with the same reason share one finding: ``n[1-30] have not answered …``. A node that
    refuses the login lives; it matters only if ranks are missing that run nowhere else.
    """
    answering = [node for node in job.nodes.values() if node.connected]
    silent: dict[str, list[str]] = defaultdict(list)
    for name, node in sorted(job.nodes.items()):
        if not_responding(node, job.now):
            silent[name if answering else node.why.replace(name, "")].append(name)
    unseen = [name for names in silent.values() for name in names if not job.ranks_of(name)]
    for names in silent.values():
        node = job.nodes[names[0]]
        known = {rank for name in names for rank in ranks_on_node(job, name)}
        ranks = tuple(sorted(known)) or (_nowhere_else(job) if unseen == names else ())
        elsewhere = {rank.rank for rank in job.ranks if rank.node not in names and rank.gone_at is None}
        spare = len(elsewhere) >= (world_size(job) or len(elsewhere) + 1)
        needed = bool(answering) and not spare and (bool(world_size(job)) or not node.refused)
        text = f"{folded_names(names)} {'has' if len(names) == 1 else 'have'} not answered for "
        text += duration(max(0.0, job.now - (node.seen_at or node.since)))
        text = f"hangtop cannot log in to {folded_names(names)}" if node.refused else text
        yield Finding(
            "node_unreachable", "critical" if needed else "warning",
            0.9 if node.seen_at and ranks and answering else 0.8 if needed else 0.5,
            f"{text}{f', and {ranks_text(ranks)} with it' if ranks else ''}: {node.why or 'no reason given'}",
            ranks=ranks, nodes=tuple(names),
            evidence=(Evidence(Observer.LINK, f"connection to {names[0]}", node.since or None, node.why or node.link),),
            advice=LOGIN if node.refused else OTHERS_ANSWER if answering else NONE_ANSWERS,
        )  # fmt: skip


def _nowhere_else(job: Job) -> tuple[int, ...]:
    """Ranks of WORLD_SIZE that run on no node in view: they belong to the node that was never seen.

    There must be as many of them as LOCAL_WORLD_SIZE says.
    """
    seen = {rank.rank for rank in job.ranks}
    absent = tuple(rank for rank in range(world_size(job) or 0) if rank not in seen)
    sizes = {rank.process.local_world_size for rank in job.ranks} - {None}
    return absent if min(seen, default=-1) >= 0 and sizes <= {len(absent)} else ()


def node_rebooted(job: Job) -> Iterator[Finding]:
    """node_rebooted: a node was rebooted under its ranks, which now run nowhere.

    A rank that ended before the boot, or whose log shows its failure, does not count.
    """
    known = {rank.rank for rank in job.ranks if rank.gone_at is None} | by_rank(failures(job)).keys()
    for name, node in sorted(job.nodes.items()):
        booted = node.host.booted if node.host is not None and node.connected else -inf
        ranks = tuple(sorted({
            rank.rank for rank in job.ranks_of(name)
            if rank.rank not in known and rank.gone_at is not None
            and rank.process.started < booted <= rank.gone_at + BOOT_SLACK_S
        }))  # fmt: skip
        if ranks:
            yield Finding(
                "node_rebooted", "critical", 0.7, f"{name} was rebooted, and {ranks_text(ranks)} ended with it",
                ranks=ranks, nodes=(name,),
                evidence=(Evidence(Observer.PROCESS, f"/proc/stat on {name}", booted, "the machine booted"),),
                advice="Find out why it rebooted (console, BMC, journalctl -b -1) before a job runs there.",
            )  # fmt: skip


def cpu_starved(job: Job) -> Iterator[Finding]:
    """cpu_starved: a rank is runnable without a CPU for a large part of the time, while most others get theirs.

    Needs a reason that holds for this rank alone: it is bound to one CPU, its nice value is higher, or its node is
    overloaded while other nodes are not.
    """
    known = [rank for rank in job.ranks if rank.rank >= 0 and rank.gone_at is None and _counts_cpu(job, rank)]
    usual = median_low(rank.waited_for_cpu for rank in known) if known else 0
    late = [rank for rank in known if rank.waited_for_cpu >= max(CPU_WAITED_SHARE, CPU_PEERS_SHARE * usual)]
    by_node: dict[str, list[Rank]] = defaultdict(list)
    nice = min((rank.process.nice for rank in known), default=0)
    for rank in late if 2 * len(late) <= len(known) else ():
        if _is_crowded(job, rank.node) or rank.process.allowed.isdecimal() or rank.process.nice > nice:
            by_node[rank.node].append(rank)
    for name, ranks in by_node.items():
        numbers, share = [rank.rank for rank in ranks], min(rank.waited_for_cpu for rank in ranks)
        allowed = {f"CPUs {rank.process.allowed}, nice {rank.process.nice}" for rank in ranks}
        text = f"{share}% of the time for a CPU, the others {usual}%: may run on {listed(sorted(allowed))}"
        proof = Evidence(Observer.PROCESS, f"/proc/*/schedstat on {name}", job.now, text)
        yield of_ranks("cpu_starved", 0.8, numbers, (name,), f"waits {text}", (proof,), OWN_CPUS, severity="warning")


def _is_crowded(job: Job, name: str) -> bool:
    """Whether this node's load per CPU is high, and far above that of the other nodes."""
    loads = {name: node.host.load / node.host.cpus for name, node in job.nodes.items() if node.host}
    mine = loads.pop(name, 0.0)
    return bool(loads) and mine >= max(CPU_CROWDED, CPU_PEERS_SHARE * median(loads.values()))


def _counts_cpu(job: Job, rank: Rank) -> bool:
    """Whether the rank's node is connected and has measured how long the rank waits for a CPU."""
    node = job.nodes.get(rank.node)
    source = node.sources.get("ranks") if node is not None and node.connected else None
    pulse = rank.pulses.newest
    return pulse is not None and pulse.waited is not None and source is not None and source.state == "ok"


def storage_stalled(job: Job) -> Iterator[Finding]:
    """storage_stalled: the kernel or a file system reports that a file server does not answer, and is not back."""
    for name, node in sorted(job.nodes.items()):
        last: dict[tuple[str, str], LogEvent] = {}
        for event in events_on(job, node, "kernel.storage"):
            last[text_of(event, "system"), text_of(event, "server")] = event
        away = {key: event for key, event in sorted(last.items()) if not event.data.get("ok")}
        if away:
            servers = listed([f"{system} server {server}".rstrip() for system, server in away])
            yield Finding(
                "storage_stalled", "critical", 0.85, f"{name} gets no answer from {servers}",
                ranks=ranks_on_node(job, name), nodes=(name,), evidence=tuple(map(event_line, list(away.values())[:4])),
                advice="Ranks that read or write there hang in the kernel until the server is back.",
            )  # fmt: skip


def topology_differs(job: Job) -> Iterator[Finding]:
    """topology_differs: ``nvidia-smi topo -m`` shows other links than on most nodes with the same devices.

    Example: seven nodes have NV18 between all GPUs, node5 has SYS between GPU3 and every other one.
    """
    alike: dict[tuple[str, ...], dict[str, dict[str, str]]] = defaultdict(dict)
    for name, node in sorted(job.nodes.items()):
        if links := _links(node):
            alike[tuple(links)][name] = links
    for nodes in alike.values():
        cells, agree = Counter(tuple(links.items()) for links in nodes.values()).most_common(1)[0]
        usual = dict(cells)
        for name, links in nodes.items() if len(nodes) >= WIRED_ALIKE and 2 * agree > len(nodes) else ():
            if differ := [f"{pair} {link}, not {usual[pair]}" for pair, link in links.items() if link != usual[pair]]:
                yield Finding(
                    "topology_differs", "warning", 0.8,
                    f"{name} is wired differently from {count(agree, 'other node')}: {listed(differ, most=3)}",
                    ranks=ranks_on_node(job, name), nodes=(name,),
                    evidence=(Evidence(Observer.GPU, f"nvidia-smi topo -m on {name}", None, listed(differ, most=12)),),
                    advice="If an NVLink (NV) is gone, look at dmesg and nvidia-smi nvlink -s, and drain the node. "
                    "Else compare slots and BIOS settings (NUMA nodes per socket, ACS) with the others'.",
                )  # fmt: skip


def _links(node: Node) -> dict[str, str]:
    """Link between each two devices: ``GPU0-GPU3`` → ``NV18``."""
    pairs = combinations([sample.value for sample in node.readings_of("topology")], 2)
    return {f"{device.of}-{other.of}": str(device.values.get(other.of, "")) for device, other in pairs}


# --- what an earlier run left behind ---------------------------------------------------------------------------------


def zombie_process(job: Job) -> Iterator[Finding]:
    """zombie_process: processes of an earlier run that are still alive.

    Another job that is at work on the same node does not count.
    """
    left: dict[str, list[Rank]] = defaultdict(list)
    for rank in job.others:
        if left_over(rank, job.others):
            left[rank.node].append(rank)
    for name, others in sorted(left.items()):
        pids = [str(other.process.pid) for other in others]
        holds = sorted({f"{name}:{index}" for other in others for index in other.gpus})
        yield Finding(
            "zombie_process", "warning", 0.8 if holds else 0.65,
            f"{count(len(others), 'process', 'processes')} of another run still on {name}: pid {listed(pids)}",
            nodes=(name,), gpus=tuple(holds),
            evidence=tuple(
                Evidence(Observer.PROCESS, f"process {other.process.pid} on {name}", other.process.started,
                         f"RANK={other.rank}, run {other.process.run_id or 'unnamed'}: {other.process.command}")
                for other in others[:4]
            ),
            advice=f"If that run is over, end them: kill {' '.join(pids[:8])}",
            next=(next_step("K", "repair", "orphans", name),),
        )  # fmt: skip


def left_over(rank: Rank, others: Sequence[Rank]) -> str:
    """Why a rank is left over from a run that is over; empty for any other rank.

    Its launcher is gone, and init is its parent. A rank that was started without a launcher may have had init as its
    parent from the start: other ranks of its run must be missing on its node.
    """
    if not rank.process.adopted:
        return ""
    had, left = rank.process.local_world_size or 0, {other.rank for other in others if _run(other) == _run(rank)}
    if len(left) < had:
        return f"{len(left)} of the {had} ranks that its run had here are left"
    return "" if rank.process.launcher in BY_HAND else f"its launcher ({rank.process.launcher}) is gone"


def _run(rank: Rank) -> tuple[str, str, int | None, int | None]:
    """What identifies a run on a node."""
    return rank.node, rank.process.run_id, rank.process.master_port, rank.process.world_size


RULES = (node_unreachable, node_rebooted, cpu_starved, storage_stalled, topology_differs, zombie_process)
