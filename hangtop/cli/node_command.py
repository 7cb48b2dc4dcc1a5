"""Commands that connect to nodes, ask once and answer: connection, ``--yes``, ``--json``, exit codes stand here once.

@node_command("port", json="docs/probes.md")
@click.option("--from", "wanted", type=int, default=29500, help="…")
async def port(run: NodeRun, wanted: int) -> Reply:
'''Propose a rendezvous port that is free on all nodes. …'''
found = await free_port(run.session, wanted)
return Reply({"port": found.port}, [f"{found.port}"], exit_code=int(found.port is None))
"""

from __future__ import annotations

import functools
import json as codec
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import click

from hangtop.cli.answer import wants_colour
from hangtop.cli.connecting import connected
from hangtop.cli.options import SectionedCommand, connection, nodes
from hangtop.cli.terminal import Status, asker, interrupted_cleanly, interruptible
from hangtop.session.options import SessionOptions
from hangtop.session.probes import Line, Probe, ProbeRefused, ProbeResult, Shade
from hangtop.session.session import Session

SCHEMA = 1
"""Version of the JSON of all commands here that have no verdict's own."""
MOST = 8
"""Nodes of which it is said one by one why they could not be reached."""
NOT_WATCHING = ("interval", "patience", "logs", "py_spy", "sudo", "read_only")
"""Shared options of which a command that neither watches nor looks at stacks makes no use."""
COLOURS: dict[Shade, str] = {"good": "green", "bad": "red", "middling": "yellow", "accent": "magenta", "dim": "blue"}


class NoNodeError(click.ClickException):
    """No node could be reached."""

    exit_code = 3


@dataclass(frozen=True, slots=True)
class Reply:
    """What a command answers."""

    document: Mapping[str, Any]
    """For ``--json``; ``schema`` is added where it is not there."""
    lines: Iterable[str]
    """For people."""
    exit_code: int = 0


@dataclass(frozen=True, slots=True)
class NodeRun:
    """One run of a command: a session whose nodes have answered or failed, and what asks and tells meanwhile."""

    session: Session
    options: SessionOptions
    status: Status
    yes: bool = False

    def agree(self, question: str, *shown: str) -> None:
        """Show what will be done, and ask unless ``--yes`` was given; see :func:`agree`."""
        self.status.clear()
        for line in shown:
            click.echo(line, err=True)
        agree(question, yes=self.yes)

    async def measure(self, probe: Probe) -> ProbeResult:
        """Run a probe, its progress in the line of status."""
        try:
            return await probe.run(self.status.say)
        except ProbeRefused as refused:
            raise click.ClickException(str(refused)) from None


def node_command(
    name: str,
    *,
    json: str = "docs/findings.md",
    yes: str = "",
    changes: str = "",
    hidden: Collection[str] = NOT_WATCHING,
    needs: Collection[str] = (),
    node_needed: bool = True,
) -> Callable[[Callable[..., Awaitable[Reply]]], click.Command]:
    """Make a command of a coroutine that gets a :class:`NodeRun` and its own options, and gives a :class:`Reply`.

    ``json`` names the page that describes its JSON, ``yes`` is the help of ``--yes`` for a command that asks;
    without one there is no such option. ``changes`` says what ``--read-only`` refuses. ``needs`` names sources of
    the nodes without whose first word the command cannot answer; with ``node_needed`` the exit code is 3 where no
    node could be reached.
    """

    def decorate(work: Callable[..., Awaitable[Reply]]) -> click.Command:
        @functools.wraps(work)
        def command(options: SessionOptions, **wishes: Any) -> None:
            as_json, agreed = wishes.pop("json"), wishes.pop("yes", False)
            if changes and options.read_only:
                raise click.UsageError(f"--read-only refuses {changes}")

            async def answer() -> Reply:
                async with node_run(options, needs, yes=agreed) as run:
                    if node_needed:
                        need_a_node(run.session)
                    return await work(run, **wishes)

            finish(interrupted_cleanly(answer()), as_json=as_json)

        decorated = connection(hidden=hidden)(command)
        decorated = click.option("--json", is_flag=True, help=f"Answer as JSON ({json}).")(decorated)
        if yes:
            decorated = click.option("--yes", is_flag=True, envvar="HANGTOP_YES", help=yes)(decorated)
        params = getattr(nodes(decorated), "__click_params__")  # noqa: B009 - click's own list, the last word first
        params.insert(0, params.pop())  # nodes stand behind the command's own arguments
        return click.command(name, cls=SectionedCommand)(decorated)

    return decorate


def finish(reply: Reply, *, as_json: bool) -> None:
    """Print a reply and end with its exit code."""
    if as_json:
        document = {**({} if "schema" in reply.document else {"schema": SCHEMA}), **reply.document}
        click.echo(codec.dumps(document, indent=2, ensure_ascii=False))
    else:
        for line in reply.lines:
            click.echo(line)
    click.get_current_context().exit(reply.exit_code)


def painted(lines: Iterable[Line]) -> Iterator[str]:
    """A probe's lines with colours for their shades, where the terminal has colours."""
    colour = wants_colour(sys.stdout)
    for line in lines:
        pieces = (
            click.style(text, fg=COLOURS.get(shade), bold=shade == "strong")
            if colour and shade and text.strip()
            else text
            for text, shade in line
        )
        yield "".join(pieces).rstrip()


@asynccontextmanager
async def node_run(
    options: SessionOptions, needs: Collection[str] = (), *, yes: bool = False
) -> AsyncIterator[NodeRun]:
    """Connect, wait for the nodes' first answers, and close the session however the command ends.

    Raises what :func:`~hangtop.session.live.live_session` raises.
    """
    from hangtop.session.live import live_session

    session, status = live_session(options), Status()
    session.asker = asker(batch=options.batch)
    try:
        await session.start(watching=False)
        await connected(session, status.say, needs)
        yield NodeRun(session, options, status, yes)
    finally:
        status.clear()
        await session.close()


def need_a_node(session: Session) -> None:
    """Say on standard error which nodes were never reached, and why. Raises :class:`NoNodeError` when none was."""
    every = list(session.state.nodes.values())
    away = [node for node in every if node.seen_at is None and node.link != "limited"]
    for node in away[:MOST]:
        click.echo(f"hangtop: {node.name}: {node.why or f'still {node.link}'}", err=True)
    if len(away) > MOST:
        click.echo(f"hangtop: and {len(away) - MOST} more nodes", err=True)
    if every and len(away) == len(every):
        raise NoNodeError("no node could be reached")


def agree(question: str, *, yes: bool) -> None:
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
