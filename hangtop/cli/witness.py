"""``hangtop witness …``: the job's own witnesses, and what is asked of them by consent alone."""

from __future__ import annotations

import asyncio
import json as codec
from collections.abc import Callable
from dataclasses import asdict

import click

from hangtop.cli.common import connection_but, nodes
from hangtop.cli.connecting import connected_session, need_a_node
from hangtop.cli.consent import ask as ask_person
from hangtop.cli.consent import refuse_read_only
from hangtop.cli.default_group import DefaultGroup
from hangtop.cli.layout import LaidOut
from hangtop.cli.running import interrupted_cleanly
from hangtop.cli.status import Status
from hangtop.diagnosis.witnesses.ladder import Rung, ladder
from hangtop.session.asking.orders import WitnessOrder, WitnessRefused
from hangtop.session.options import SessionOptions
from hangtop.session.session import Session

YES = click.option("--yes", is_flag=True, help="Do not ask: for scripts.")
_NEEDS = ("software",)
VERSIONS = 3.0
"""Seconds to wait for the versions of the ranks' libraries once they were looked up: a few looks."""
MARKS = {"told": "✓", "there": "·", "missing": "✗"}


@click.command("list", cls=LaidOut)
@nodes
@connection_but("interval", "patience")
@click.option("--json", is_flag=True, help="Answer as JSON: rungs of name, state, text, how.")
@click.pass_context
def list_command(ctx: click.Context, options: SessionOptions, json: bool) -> None:
    """List the job's own witnesses: what each says, or why it is missing and what the next run needs. Only reads.

    Exit code: 0 listed, 1 no rank runs there, 2 wrong usage, 3 no node reachable.
    """
    rungs = interrupted_cleanly(_rungs(options))
    if json:
        document = {"schema": 1, "rungs": [asdict(rung) for rung in rungs]}
        click.echo(codec.dumps(document, indent=2, ensure_ascii=False))
    for rung in () if json else rungs:
        click.echo(f"{MARKS[rung.state]} {rung.name:<22} {rung.text}")
        if rung.how:
            click.echo(f"  {'':<22} → {rung.how}")
    if not rungs and not json:
        click.echo("no rank runs on these nodes")
    ctx.exit(0 if rungs else 1)


async def _ready(session: Session) -> None:
    """Wait until the ranks' libraries are known: a look after the source that reads them ranks are told with them.

    Raises :class:`~hangtop.cli.connecting.NoNode` where no node could be reached.
    """
    need_a_node(session)
    for _ in range(round(VERSIONS / 0.1)):
        if any(rank.process.versions for rank in session.living()):
            return
        await asyncio.sleep(0.1)


async def _rungs(options: SessionOptions) -> tuple[Rung, ...]:
    status = Status()
    async with connected_session(options, status, _NEEDS) as session:
        await _ready(session)
        status.say("asking what lies there")
        await session.witnesses.recorders()
        if not options.read_only:
            await session.dump_stacks(None, unasked=True)
        if session.progress.motion.moving is not True:
            await session.witnesses.ras()
        status.clear()
        return ladder(session.job(), session.witnesses.ras_fault)


@click.command("status", cls=LaidOut)
@nodes
@connection_but("interval", "patience")
@YES
def status_command(options: SessionOptions, yes: bool) -> None:
    """Have NCCL's RAS say what each rank has launched, where it is not asked by itself (NCCL 2.24 to 2.28).

    Those can crash a job that is asked, so this asks first. Exit code: 0 answered, 1 it cannot be asked, 2 wrong usage,
    3 no node reachable.
    """
    from hangtop.session.asking.ras_status import status

    _carry_out(options, status, yes=yes)


@click.command("diagnose", cls=LaidOut)
@nodes
@connection_but("interval", "patience")
@YES
def diagnose(options: SessionOptions, yes: bool) -> None:
    """Have NCCL's RAS compare GPUs, driver, ECC errors, NVLinks and NCCL settings of all ranks (NCCL 2.31).

    Asks first. Exit code: 0 answered, 1 it cannot be asked, 2 wrong usage, 3 no node reachable.
    """
    from hangtop.session.asking.ras import diagnostics

    _carry_out(options, diagnostics, yes=yes)


def _carry_out(options: SessionOptions, make: Callable[[Session], WitnessOrder], *, yes: bool) -> None:
    refuse_read_only(options, "this: it does something in the job")
    for line in interrupted_cleanly(_asked(options, make, yes=yes)):
        click.echo(line)


async def _asked(options: SessionOptions, make: Callable[[Session], WitnessOrder], *, yes: bool) -> list[str]:
    status = Status()
    async with connected_session(options, status, _NEEDS) as session:
        await _ready(session)
        try:
            order = make(session)
            click.echo(f"{order.command()}\n{order.risk()}", err=True)
            ask_person(f"{order.brief()}. Go on?", yes=yes)
            status.say(order.title)
            return await order.carry_out(session)
        except WitnessRefused as refused:
            raise click.ClickException(str(refused)) from None
        finally:
            status.clear()


command = DefaultGroup(
    "witness",
    default="list",
    commands={
        "list": list_command,
        "status": status_command,
        "diagnose": diagnose,
    },
    help="The job's own witnesses: what each says or lacks; and, after asking, what NCCL's RAS tells from within. "
    "With nodes alone: list.",
)
