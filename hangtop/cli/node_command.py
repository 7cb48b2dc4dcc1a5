"""Commands that connect to nodes, ask once and answer: shared connection, ``--yes``, ``--json`` and exit codes.

The function of a command returns a :class:`Reply`, or a :class:`~hangtop.session.probes.Probe`, which is shown,
confirmed and run here.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Any

import click

from hangtop.cli.answer import UNREACHABLE, Answer, Reply, as_json, finding_lines, finish, wants_colour
from hangtop.cli.connecting import all_answered, all_spoken, need_a_node, opened
from hangtop.cli.options import SectionedCommand, connection
from hangtop.cli.terminal import Status, ask_on_terminal, interrupted_cleanly
from hangtop.diagnosis.finding import Verdict
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import outcome_words
from hangtop.session.options import SessionOptions, completed
from hangtop.session.probes import Probe, ProbeRefused, ProbeResult, run_probe
from hangtop.session.session import Session

NOT_WATCHING = ("interval", "patience", "logs", "sudo", "read_only")
"""Shared options without effect on a command that neither watches nor takes stacks."""


@dataclass(frozen=True, slots=True)
class NodeRun:
    """One run of a command: a session whose nodes have answered or failed, its options, and a line of progress."""

    session: Session
    options: SessionOptions
    status: Status


def node_command(
    name: str,
    *,
    json: str = "docs/findings.md",
    changes: str = "",
    hidden: Collection[str] = NOT_WATCHING,
    needs: Collection[str] = (),
    node_needed: bool = True,
) -> Callable[[Callable[..., Awaitable[Reply | Probe]]], click.Command]:
    """Make a command of a coroutine that takes a :class:`NodeRun` and its own options.

    ``json`` names the page that describes its JSON. ``changes`` says what ``--read-only`` refuses; such a command has
    ``--yes``. ``needs`` names sources that must have looked once before the command can answer; with
    ``node_needed``, the exit code is 3 if no node could be reached.
    """

    def decorate(work: Callable[..., Awaitable[Reply | Probe]]) -> click.Command:
        @functools.wraps(work)
        def command(options: SessionOptions, **wishes: Any) -> None:
            as_json, yes = wishes.pop("json"), wishes.pop("yes", False)
            if changes and options.read_only:
                raise click.UsageError(f"--read-only refuses {changes}")

            async def answer() -> Reply:
                began = time.monotonic()
                async with opened(options) as (session, status):
                    await all_answered(session, status.say, needs)
                    await all_spoken(session, needs)
                    if node_needed:
                        need_a_node(session)
                    run = NodeRun(session, options, status)
                    try:
                        made = await work(run, **wishes)
                        return made if isinstance(made, Reply) else await ask_and_run(run, made, began, yes=yes)
                    except ProbeRefused as refused:
                        raise click.UsageError(str(refused)) from None

            finish(interrupted_cleanly(answer()), as_json=as_json)

        decorated = connection(hidden=hidden)(command)
        decorated = click.option("--json", is_flag=True, help=f"Answer as JSON ({json}).")(decorated)
        if changes:
            decorated = click.option("--yes", is_flag=True, help="Run without asking.")(decorated)
        return click.command(name, cls=SectionedCommand)(decorated)

    return decorate


async def ask_and_run(run: NodeRun, probe: Probe, began: float, *, yes: bool) -> Reply:
    """Show the command, ask if the probe signals processes or loads a job's nodes, run it, and reply."""
    run.status.clear()
    if probe.command:
        click.echo(probe.command, err=True)
    job = run.session.job()
    beside = sum(rank.gone_at is None and rank.node in probe.nodes for rank in job.ranks)
    if probe.signals and probe.nodes:
        click.echo(probe.risk, err=True)
        await agree(f"{probe.title}?", yes=yes)
    elif probe.risk and beside:
        await agree(f"{beside} ranks of a job run there. {probe.risk} Continue?", yes=yes)
    return probe_reply(await run_probe(probe, run.status.say), job, began, run.options)


def probe_reply(result: ProbeResult, job: Job, began: float, options: SessionOptions) -> Reply:
    """Make the reply of a probe; the commands of next steps include the options that reach the nodes."""
    outcome = "healthy" if result.outcome == "ok" else "unknown"
    verdict = Verdict(outcome, result.summary, result.findings, result.unknown)  # type: ignore[arg-type]
    answer = Answer(completed(verdict, options, job.nodes), job, time.monotonic() - began)
    document = as_json(answer) | {"verdict": result.outcome} | dict(result.figures)
    code = UNREACHABLE if answer.exit_code == UNREACHABLE else int(result.outcome != "ok")
    head = f"{outcome_words(result.outcome).upper()}  {answer.verdict.summary}"
    found = list(finding_lines(answer, colour=wants_colour(sys.stdout)))
    return Reply(document, (head, *(("", *result.lines) if result.lines else ()), *found), code)


async def agree(question: str, *, yes: bool) -> None:
    """Ask for confirmation, unless ``yes``.

    Raises a usage error without a terminal, :class:`click.Abort` for a no.
    """
    if yes:
        return
    answer = await ask_on_terminal(f"{question} [y/N]: ") if sys.stdin.isatty() else None
    if answer is None:
        raise click.UsageError(f"{question} There is no terminal to ask on: use --yes.")
    if answer.lower() not in ("y", "yes"):
        click.echo("nothing was done", err=True)
        raise click.Abort
