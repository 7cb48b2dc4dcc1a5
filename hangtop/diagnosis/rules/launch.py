"""Starts that did not come about: launchers that refuse, wait for nodes, or start all ranks anew."""

from __future__ import annotations

import re
from collections.abc import Iterator

from collectors.samples.logs import LogEvent
from collectors.samples.ranks import IdleLauncher
from hangtop.diagnosis.evidence.event_fields import text_of
from hangtop.diagnosis.evidence.events import event_line, hosts_in, lines, ranks_in, said
from hangtop.diagnosis.failures.record import Failure, failures, failures_before_restart
from hangtop.diagnosis.finding import Evidence, Finding, next_step
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.node_names import nodes_text
from hangtop.diagnosis.phrasing import count, duration, who
from hangtop.diagnosis.roster import homes
from hangtop.diagnosis.rules.crash import file_advice
from hangtop.diagnosis.tables.thresholds import START_LONGEST_S
from hangtop.diagnosis.verdict.aftermath import finished

_NODES = re.compile(r"--nnodes[= ](\d+)")
TOLD = 4
AGAIN_S = 10.0
"""Ours: a launcher that starts its ranks anew, or ends with them, has done so by then."""


def launching(job: Job) -> str:
    """Which launchers have started no rank of a job of which none was seen, and for how long; empty without one."""
    idle = _idle(job)
    if not idle:
        return ""
    nodes = sorted({node for node, _ in idle})
    long = duration(max(0.0, job.now - _alone_since(idle)))
    if any(one.since is not None for _, one in idle):
        return (
            f"torchrun has had no rank on {nodes_text(nodes)} for {long} at least: those that it had started have ended"
            f"{_wanted(idle).replace(':', ';', 1)}"
        )
    return f"torchrun has started no rank on {nodes_text(nodes)} for {long}{_wanted(idle)}"


def no_rank_started(job: Job) -> Iterator[Finding]:
    """init_hang by launchers: for longer than a start takes torchrun runs, and no rank does on any node.

    Needs the processes of the job's nodes; says nothing of a job some ranks of which were seen, or that failed.
    """
    idle = _idle(job)
    if not idle or job.now - _alone_since(idle) < START_LONGEST_S:
        return
    nodes = tuple(sorted({node for node, _ in idle}))
    yield Finding(
        "init_hang", "critical", 0.75, launching(job),
        nodes=nodes,
        evidence=tuple(_seen(job, node, one) for node, one in idle[:TOLD]),
        advice="Start it on the nodes that are missing, with the same rendezvous (--rdzv-endpoint or --master-addr and "
        "port, --rdzv-id), and look whether they reach it: it waits for --nnodes of them.",
        next=(next_step("P", "probe", "path", *nodes),) if len(nodes) > 1 else (),
    )  # fmt: skip


def not_started_again(job: Job) -> Iterator[Finding]:
    """job_restarts: all ranks have ended, and a launcher that was there before starts none anew: it waits for others.

    Needs the processes of all of the job's nodes, and that they were seen to end. A warning once it has taken longer
    than a start.
    """
    ended = [rank.gone_at for rank in job.ranks if rank.gone_at is not None]
    if not job.live or not ended or len(ended) < len(job.ranks):
        return
    since, used = max(ended), {rank.node for rank in job.ranks}
    if any(job.nodes[name].link != "live" for name in used if name in job.nodes):
        return
    idle = [(name, one) for name, one in _launchers(job) if name in used and one.started < since]
    if not idle or job.now - since < AGAIN_S:
        return
    nodes = sorted({name for name, _ in idle})
    without = sorted(used.difference(nodes))
    lacks = f"; none is left on {nodes_text(without)}" if without else ""
    yield Finding(
        "job_restarts", "warning" if job.now - since >= START_LONGEST_S else "info", 0.8,
        f"torchrun still runs on {nodes_text(nodes)} and has started no rank anew since all ended "
        f"{duration(job.now - since)} ago{_wanted(idle)}{lacks}",
        nodes=tuple(without or nodes),
        evidence=tuple(_seen(job, node, one) for node, one in idle[:TOLD]),
        advice="It waits at its rendezvous for the others. Start it where it is missing, with the same --rdzv-id and "
        "endpoint, or end it everywhere and start the job again.",
    )  # fmt: skip


def _launchers(job: Job) -> list[tuple[str, IdleLauncher]]:
    return [(name, one) for name, node in sorted(job.nodes.items()) for one in node.launchers]


def _seen(job: Job, node: str, one: IdleLauncher) -> Evidence:
    return Evidence(f"process {one.pid} on {node}", job.now, f"{one.command}, for {duration(job.now - one.started)}")


def _alone_since(idle: list[tuple[str, IdleLauncher]]) -> float:
    """Since when none of them has a rank, as far as it is known: one that had some is older than that."""
    return max(one.started if one.since is None else one.since for _, one in idle)


def _idle(job: Job) -> list[tuple[str, IdleLauncher]]:
    if not job.live or job.ranks:
        return []
    idle = _launchers(job)
    began = min((one.started for _, one in idle), default=job.now)
    # what a kernel told before that is of another run
    return [] if any(failure.at is None or failure.at >= began for failure in failures(job)) else idle


def _wanted(idle: list[tuple[str, IdleLauncher]]) -> str:
    """How many nodes it waits for, where it says so and more of them than those on which it runs."""
    asked = [int(found.group(1)) for _, one in idle if (found := _NODES.search(one.command))]
    here = len({node for node, _ in idle})
    return f": it waits for {count(max(asked), 'node')} and runs on {here}" if asked and max(asked) > here else ""


MANY_STARTS = 2
"""Starts after the first that make a row of them: one may be a node that was taken in, or out."""


def started_anew(job: Job) -> Iterator[Finding]:
    """job_restarts: the launcher has started the ranks anew, and what ended the starts before.

    Needs the launcher's count in the environment of the ranks (TORCHELASTIC_RESTART_COUNT), and logs for the reason.
    Critical from the second time on while no step was counted since the last; information once steps are.
    """
    living = [rank for rank in job.ranks if rank.gone_at is None] or list(job.ranks)
    times = max((rank.process.restart or 0 for rank in living), default=0)
    if not times or not job.live:
        return
    begun = min(rank.process.started for rank in living)
    stepped = job.motion.last_step_at is not None and job.motion.last_step_at > begun
    first = _first(failures_before_restart(job))
    ranks = () if first is None or first.rank is None else (first.rank,)
    place = f" at {first.frame}" if first is not None and first.frame else ""
    why = f"; {who(ranks)} had failed first: {first.what}{place}" if first is not None else ""
    refused = "" if first is None else file_advice(first.what)
    counted = f"TORCHELASTIC_RESTART_COUNT={times}"
    yield Finding(
        "job_restarts", "critical" if times >= MANY_STARTS and not stepped else "info",
        0.85 if first is not None else 0.6,
        f"the ranks were started anew {count(times, 'time')}, {duration(max(0.0, job.now - begun))} ago the last{why}",
        ranks=ranks,
        nodes=homes(job, ranks),
        evidence=(
            *((event_line(first.event),) if first is not None else ()),
            Evidence("environment of the ranks", begun, counted),
        ),
        advice=f"{refused or 'Mend what ended the first start.'} The launcher tries again until its attempts are used "
        "up (torchrun --max-restarts).",
    )  # fmt: skip


def _first(before: tuple[Failure, ...]) -> Failure | None:
    """The earliest failure that is no consequence and tells more than an exit code."""
    roots = [failure for failure in before if not failure.consequence]
    return next((failure for failure in roots if not failure.bare), roots[0] if roots else None)


WHO = {
    "slurm": "Slurm",
    "mpi": "MPI's launcher",
    "hydra": "MPI's launcher",
    "ssh": "ssh",
    "docker": "the container runtime",
    "pyxis": "pyxis (enroot)",
    "enroot": "enroot",
    "kubernetes": "Kubernetes",
}
ADVICE = {
    "slurm": "Look at what the job asks for (nodes, tasks, CPUs, GPUs a node) and at what the partition gives.",
    "mpi": "Look at the launcher's own text: slots and hosts, the program's path on every node, its support for PMI.",
    "hydra": "Look at the program's path on every node, and at what its settings name.",
    "ssh": "The launcher needs a login without a password on that node: look at keys and known_hosts.",
    "kubernetes": "Look at the pod's events, at its image, its volumes and the devices of that node.",
}
CONTAINER = "Look at the image, at what is mounted into it, and at the driver and container toolkit of that node."


def launch_refused(job: Job) -> Iterator[Finding]:
    """launch_failed: the ranks were not started, by the words of who was to start them.

    Needs a launcher's, a batch system's or a container runtime's words, of a job that is over. A run that came to its
    end, or that was started after all, is none.
    """
    everything = tuple(event for event in said(job, "launcher.refused") if not _came_about(job, event))
    events = tuple(event for event in everything if event.data.get("where") is not True)
    if not events or job.live or finished(job) or _ran(job, events):
        return
    told = [event for event in events if event.data.get("detail") is True]
    told = told or [event for event in events if event.data.get("vague") is not True] or list(events)
    first = told[0]
    launcher = text_of(events[0], "launcher")
    ranks = ranks_in(events)
    nodes = hosts_in(job, everything) or hosts_in(job, said(job, "launcher.exit"))[:8]
    yield Finding(
        "launch_failed", "critical", 0.85,
        f"the job was not started: {WHO.get(launcher, launcher)} says: {text_of(first, 'why')[:200]}",
        ranks=ranks, nodes=nodes, evidence=lines(events), advice=ADVICE.get(launcher, CONTAINER),
    )  # fmt: skip


def _came_about(job: Job, event: LogEvent) -> bool:
    """Whether a container of the same pod was started later: what it had waited for was there then."""
    return event.data.get("of_pod") is True and any(
        started.data.get("started") is True
        and started.data.get("pod") == event.data.get("pod")
        and started.source == event.source
        and started.line > event.line
        for started in said(job, "launcher.placed")
    )


def no_room(job: Job) -> Iterator[Finding]:
    """A finding ``waiting``: no node has room for the job's pods, tasks or actors, and none was found since.

    Needs a scheduler's words, the last of its kind.
    """
    events, placed = said(job, "launcher.pending"), said(job, "launcher.placed")
    if job.live or not events or any(event.line > events[-1].line for event in placed) or _ran(job, events):
        return
    drained = tuple(sorted({event.host for event in events if event.data.get("drained") is True}))
    yield Finding(
        "job_queued", "warning", 0.6, f"the job waits for a place: {text_of(events[-1], 'why')[:200]}",
        nodes=drained, evidence=lines(events),
        advice="Look at what it asks for, and at what the cluster's nodes have left.",
    )  # fmt: skip


def _ran(job: Job, events: tuple[LogEvent, ...]) -> bool:
    """Whether ranks spoke after it in the same file: whatever was refused, they were started."""
    last: dict[str, int] = {}
    for event in events:
        last[event.source] = max(event.line, last.get(event.source, 0))
    return any(
        event.kind.startswith(("torch.", "nccl.", "python.", "jax.", "engine."))
        and event.data.get("launcher") is not True
        and event.line > last.get(event.source, event.line)
        for event in job.events
    )
