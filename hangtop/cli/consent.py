"""Asking before something is done beside, or to, a running job."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import click

from hangtop.cli.running import interruptible
from hangtop.diagnosis.job import Job
from hangtop.session.options import SessionOptions


def refuse_read_only(options: SessionOptions, what: str = "probes: they load the network") -> None:
    """Raise a usage error in a session that may only look."""
    if options.read_only:
        raise click.UsageError(f"--read-only refuses {what}")


LOADS = "The probe loads their network for some seconds."


def confirm(command: str, where: Iterable[str], job: Job, *, yes: bool, effect: str = LOADS) -> None:
    """Show the command and the nodes that it will run on; beside a running job, ask.

    Raises a usage error where nobody can be asked and ``yes`` was not said, :class:`click.Abort` for a no.
    """
    nodes = sorted(where)
    if nodes:  # where none could be reached, nothing runs
        click.echo(f"on {', '.join(nodes)}: {command}", err=True)
    beside = [rank for rank in job.ranks if rank.gone_at is None and rank.node in nodes]
    if beside:
        ask(f"{len(beside)} ranks of a job run there. {effect} Go on?", yes=yes)


def ask(question: str, *, yes: bool) -> None:
    """Ask, unless ``yes`` was said already.

    Raises a usage error where nobody can be asked, :class:`click.Abort` for a no.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} Nobody can be asked here: --yes says so.")
    with interruptible():
        agreed = click.confirm(question, err=True)
    if not agreed:
        click.echo("nothing was done", err=True)
        raise click.Abort
