"""A live session: the nodes that the options name, the way to reach them, and the connections to them."""

from __future__ import annotations

import sys
from dataclasses import replace

from collectors.fleet.targets.chosen import Target, TargetError, resolve
from collectors.fleet.targets.slurm import parts_of_job
from collectors.fleet.via.way import Way, way_of
from hangtop.session.options import SessionOptions, job_of_slurm, usual_interval
from hangtop.session.session import Feed, Session

TURN = 1e-4
"""Seconds after which a busy thread yields to the event loop. The loop of 2,048 connections releases the interpreter
thousands of times a second; with Python's 5 ms it would stand still for as long as a thread works."""


def live_session(options: SessionOptions) -> Session:
    """A session over the nodes that the options name. Raises :class:`TargetError` if they name none."""
    found = reach(options)
    logs = (*options.logs, *(log for log in found.logs if log not in options.logs))
    known = replace(options, logs=logs, interval=options.interval or usual_interval(len(found.targets)))
    return Session(known, feed=found)


def reach(options: SessionOptions) -> LiveFeed:
    """The nodes that the options name, else the nodes of the Slurm job. Raises :class:`TargetError`."""
    job = job_of_slurm(options)
    if options.via == "slurm" and not job:
        raise TargetError("--via slurm goes into the nodes of a job: name it by --slurm JOBID")
    parts = parts_of_job(job) if job else ()
    named = bool(options.targets) or options.hostfile is not None
    of_job = [] if named else [part.nodes for part in parts]
    targets = resolve(options.targets, hostfile=options.hostfile, more=of_job)
    way = way_of(options.via, options.ssh_config, parts)
    if way is not None and any(target.local for target in targets):
        raise TargetError(f"--via {options.via!r} needs nodes to lead to: name some")
    return LiveFeed(targets, way, tuple(dict.fromkeys(log for part in parts for log in part.logs)))


class LiveFeed(Feed):
    """Delivers the samples that the nodes send, once started."""

    connected = True
    unreached = "not connected yet"

    def __init__(self, targets: tuple[Target, ...], way: Way | None, logs: tuple[str, ...]) -> None:
        """``way`` leads to all nodes (None: hangtop's own SSH); ``logs`` are globs of the job's log files."""
        self.targets, self.way, self.logs = targets, way, logs

    async def start(self, session: Session) -> None:
        """Start connecting to every node."""
        # Imported here, so that the screen draws its first frame before the modules for connections load.
        from collectors.fleet.fleet import Fleet

        options = session.options
        session.fleet = Fleet(
            self.targets, session.node_settings.of(), sink=session, ask=session.ask, way=self.way,
            ssh_config=options.ssh_config, python=options.python,
        )  # fmt: skip
        sys.setswitchinterval(TURN)
        await session.fleet.start()
