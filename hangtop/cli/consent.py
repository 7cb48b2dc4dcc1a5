"""Asking before a probe beside a running job."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import click

from hangtop.diagnosis.job import Job
from hangtop.session.options import SessionOptions


def refuse_read_only(options: SessionOptions) -> None:
    """Raise a usage error in a session that may only look."""
    if options.read_only:
        raise click.UsageError("--read-only refuses probes: they load the network")


def confirm(command: str, where: Iterable[str], job: Job, *, yes: bool) -> None:
    """Show the command and the nodes that it will run on; beside a running job, ask.

    Raises a usage error where nobody can be asked and ``yes`` was not said, :class:`click.Abort` for a no.
    """
    nodes = sorted(where)
    click.echo(f"on {', '.join(nodes)}: {command}", err=True)
    beside = [rank for rank in job.ranks if rank.gone_at is None and rank.node in nodes]
    if not beside or yes:
        return
    question = f"{len(beside)} ranks of a job run there. The probe loads their network for some seconds. Go on?"
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} Nobody can be asked here: --yes says so.")
    click.confirm(question, abort=True, err=True)
