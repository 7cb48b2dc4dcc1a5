"""A live session: the nodes that the options name, the way to reach them, and the connections to them."""

from __future__ import annotations

import sys
from dataclasses import replace

from collectors.fleet.targets.chosen import TargetError, resolve
from collectors.fleet.targets.slurm import parts_of_job
from collectors.fleet.via.way import way_of
from hangtop.session.options import SessionOptions, job_of_slurm, usual_interval
from hangtop.session.session import Session

TURN = 1e-4
"""Seconds after which a busy thread yields to the event loop. The loop of 2,048 connections releases the interpreter
thousands of times a second; with Python's 5 ms it would stand still for as long as a thread works."""


class LiveSession(Session):
    """A session over the nodes that the options name, else over those of the Slurm job: it takes what they send."""

    can_act = True
    unreached = "not connected yet"

    def __init__(self, options: SessionOptions) -> None:
        """Determine the nodes, without connecting to any. Raises :class:`TargetError` if the options name none."""
        job = job_of_slurm(options)
        if options.via == "slurm" and not job:
            raise TargetError("--via slurm goes into the nodes of a job: name it by --slurm JOBID")
        parts = parts_of_job(job) if job else ()
        named = bool(options.targets) or options.hostfile is not None
        of_job = [] if named else [part.nodes for part in parts]
        self.targets = resolve(options.targets, hostfile=options.hostfile, more=of_job)
        self.way = way_of(options.via, options.ssh_config, parts)
        """Leads to all nodes; None: hangtop's own SSH."""
        if self.way is not None and any(target.local for target in self.targets):
            raise TargetError(f"--via {options.via!r} needs nodes to lead to: name some")
        logs = tuple(dict.fromkeys((*options.logs, *(log for part in parts for log in part.logs))))
        interval = options.interval or usual_interval(len(self.targets))
        super().__init__(replace(options, logs=logs, interval=interval))

    async def start(self, *, watching: bool = True) -> None:
        """Start connecting to every node, and watching."""
        # Imported here, so that the screen draws its first frame before the modules for connections load.
        from collectors.fleet.fleet import Fleet

        options = self.options
        self.fleet = Fleet(
            self.targets, self.node_settings.of(), sink=self, ask=self.ask, way=self.way,
            ssh_config=options.ssh_config, python=options.python,
        )  # fmt: skip
        sys.setswitchinterval(TURN)
        await self.fleet.start()
        await super().start(watching=watching)
