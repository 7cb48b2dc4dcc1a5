"""Which nodes a session is about, and by which way it reaches them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from collectors.fleet.targets.chosen import Target, TargetError, parse, resolve
from collectors.fleet.targets.slurm import SlurmComponent, parts_of_job
from collectors.fleet.via.kubectl import Kubectl, PodSelection, list_pods
from collectors.fleet.via.srun import Srun
from collectors.fleet.via.way import KUBECTL, SLURM, Way, way_of
from collectors.formats.slurm_topology import NodeLocations
from hangtop.session.locating import read_topology
from hangtop.session.options import SessionOptions, job_of_slurm


@dataclass(frozen=True, slots=True)
class Reach:
    """Nodes, and the way to all of them."""

    targets: tuple[Target, ...]
    way: Way | None = None
    """None for hangtop's own SSH."""
    parts: tuple[SlurmComponent, ...] = ()
    """Of the Slurm job."""
    logs: tuple[str, ...] = ()
    """Files that the scheduler says the job writes, as globs."""
    notes: tuple[str, ...] = ()
    """What the user should know of the way, once."""
    plan: NodeLocations | None = None
    """Where the nodes hang, by a file."""


def reach(options: SessionOptions) -> Reach:
    """What the options name. Asks Slurm or Kubernetes, so it may block. Raises :class:`TargetError`."""
    plan = None if options.topology is None else read_topology(options.topology)
    return replace(_reach(options), plan=plan)


def _reach(options: SessionOptions) -> Reach:
    job = job_of_slurm(options)
    if options.via == KUBECTL:
        return _reach_pods(options)
    if any((options.namespace, options.selector, options.container)):
        raise TargetError("-n, -l and --container are of pods: say --via kubectl too")
    if options.via == SLURM and not job:
        raise TargetError("--via slurm goes into the nodes of a job: name it by --slurm JOBID")
    parts = parts_of_job(job) if job else ()
    targets = _of_job(options, parts)
    logs = tuple(dict.fromkeys(log for part in parts for log in part.logs))
    if options.via == SLURM:
        srun = Srun(parts)
        return Reach(targets, srun, parts=parts, logs=logs, notes=tuple(filter(None, [srun.needs()])))
    way = way_of(options.via, options.ssh_config)
    if way is not None and any(target.local for target in targets):
        raise TargetError(f"--via {options.via!r} needs nodes to lead to: name some")
    return Reach(targets, way, parts=parts, logs=logs)


def _of_job(options: SessionOptions, parts: tuple[SlurmComponent, ...]) -> tuple[Target, ...]:
    """The nodes that are named and those of the job; where all that are named are of the job, they alone."""
    of_job = {target.host for target in parse(part.nodes for part in parts)}
    if options.targets or options.hostfile is not None:
        named = resolve(options.targets, hostfile=options.hostfile)
        if all(target.host in of_job for target in named):
            return named
    return resolve(options.targets, hostfile=options.hostfile, more=[part.nodes for part in parts])


def _reach_pods(options: SessionOptions) -> Reach:
    """Pods by their names, or by their labels."""
    if options.slurm or options.hostfile:
        raise TargetError("--via kubectl goes into pods, not into the nodes of a --slurm job or a --hostfile")
    place = PodSelection(options.namespace, options.selector, options.container)
    named = [target.host for target in parse(options.targets)]
    if named and options.selector:
        raise TargetError("name pods, or choose them by -l, not both")
    way = Kubectl(place, list_pods(place, named))
    if not way.names:
        raise TargetError(f"no pod is chosen by -l {options.selector}" if options.selector else "no such pod")
    return Reach(tuple(parse(way.names)), way)


def shell_words(node: str, options: SessionOptions) -> list[str] | None:
    """Argv of a shell for a person on a node by the session's ``--via``; None without one.

    Asks Slurm where that is the way. Raises :class:`TargetError`, and
    :class:`~collectors.fleet.transport.Refused` for a node that the way cannot name.
    """
    if options.via is None:
        return None
    way = reach(options).way
    (target,) = resolve([node])
    return None if way is None else way.terminal(target)


def ssh_words(options: SessionOptions) -> list[str]:
    """The ssh that reads what this session was told to read; a node and what it is to do there follow."""
    return ["ssh"] if options.ssh_config is None else ["ssh", "-F", str(options.ssh_config)]
