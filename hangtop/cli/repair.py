"""``hangtop repair …``: what people mend at night, each with its exact command, and never unasked."""

from __future__ import annotations

import json as codec
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import click

from collectors.probes.repair.free import FreePort
from hangtop.cli.answer import wants_colour
from hangtop.cli.common import connection_but, nodes
from hangtop.cli.connecting import connected_session, need_a_node
from hangtop.cli.consent import ask as ask_person
from hangtop.cli.consent import refuse_read_only
from hangtop.cli.default_group import DefaultGroup
from hangtop.cli.layout import LaidOut
from hangtop.cli.running import interrupted_cleanly
from hangtop.cli.status import Status
from hangtop.diagnosis.environment.catching import Catching, catching
from hangtop.diagnosis.phrasing import count
from hangtop.session.asking import repairs
from hangtop.session.asking.repairs import Looked, Order, Repairable, RepairResult
from hangtop.session.options import SessionOptions

YES = click.option("--yes", is_flag=True, help="Do not ask: for scripts.")
JSON = click.option("--json", is_flag=True, help="Answer as JSON (docs/probes.md).")
SIGNALS = "repairs: they signal processes"


@click.command("list", cls=LaidOut)
@nodes
@connection_but("interval", "patience", "logs", "py_spy", "sudo", "read_only")
@JSON
@click.pass_context
def list_command(ctx: click.Context, options: SessionOptions, json: bool) -> None:
    """List what can be mended now: orphans of an earlier run, and stopped ranks. Changes nothing.

    Exit code: 0 nothing to mend, 1 something, 2 wrong usage, 3 no node reachable.
    """
    looked = interrupted_cleanly(_looked(options))
    if json:
        _say_json({"orphans": map(_row, looked.orphans), "stopped": map(_row, looked.stopped)}, looked)
    else:
        _print(looked.orphans, "orphan", "hangtop repair orphans")
        _print(looked.stopped, "stopped", "hangtop repair continue")
        if not looked.orphans and not looked.stopped and not looked.unknown:
            click.echo("no orphan of an earlier run, no stopped rank")
        _tell_unknown(looked)
    ctx.exit(1 if looked.orphans or looked.stopped else 3 if looked.unknown else 0)


async def _looked(options: SessionOptions) -> Looked:
    status = Status()
    async with connected_session(options, status) as session:
        status.say("looking for orphans and stopped ranks")
        return await repairs.look(session)


@click.command("orphans", cls=LaidOut)
@nodes
@connection_but("interval", "patience", "logs", "py_spy", "sudo", "read_only")
@click.option("--pid", "names", metavar="NODE:PID", multiple=True, help="Only this one of those listed; repeatable.")
@click.option("--all", "doubtful", is_flag=True, help="Also those whose run may still be at work.")
@click.option("--grace", metavar="S", type=click.FloatRange(0, 300), default=5.0, show_default=True,
              help="Seconds between SIGTERM and SIGKILL.")  # fmt: skip
@YES
@JSON
@click.pass_context
def orphans(
    ctx: click.Context, options: SessionOptions, names: tuple[str, ...], doubtful: bool, grace: float, yes: bool,
    json: bool,
) -> None:  # fmt: skip
    """End processes that an earlier run left behind: SIGTERM, then SIGKILL to what is left after the grace.

    An orphan carries a rank, is none of the running job's, and nobody who started it is left. Exit code: 0 all are
    gone or there was none, 1 some are left, 2 wrong usage, 3 no node reachable.
    """
    refuse_read_only(options, SIGNALS)
    outcome = interrupted_cleanly(_mend(options, "orphans", names, doubtful, grace, yes))
    _end(ctx, *outcome, "orphan", json=json)


@click.command("continue", cls=LaidOut)
@nodes
@connection_but("interval", "patience", "logs", "py_spy", "sudo", "read_only")
@click.option("--pid", "names", metavar="NODE:PID", multiple=True, help="Only this one of those listed; repeatable.")
@YES
@JSON
@click.pass_context
def continue_command(
    ctx: click.Context, options: SessionOptions, names: tuple[str, ...], yes: bool, json: bool
) -> None:
    """Let stopped ranks (state T) of the running job go on: SIGCONT.

    Exit code: 0 all go on or none was stopped, 1 some do not, 2 wrong usage, 3 no node reachable.
    """
    refuse_read_only(options, SIGNALS)
    outcome = interrupted_cleanly(_mend(options, "stopped", names, True, 0.0, yes))
    _end(ctx, *outcome, "stopped process", json=json)


async def _mend(
    options: SessionOptions, which: str, names: Sequence[str], doubtful: bool, grace: float, yes: bool
) -> tuple[Looked, tuple[Repairable, ...], list[RepairResult]]:
    """Look, show, ask, act: over one connection, so that what was shown is what is signalled."""
    status = Status()
    async with connected_session(options, status) as session:
        status.say("looking")
        looked = await repairs.look(session)
        status.clear()
        there = looked.orphans if which == "orphans" else looked.stopped
        wrong = sorted(set(names) - {one.name for one in there})
        if wrong:
            listed = ", ".join(one.name for one in there) or "none"
            raise click.UsageError(f"--pid {wrong[0]} is not among those that can be mended now: {listed}")
        processes = repairs.chosen(there, names, doubtful=doubtful)
        for one in there:
            left = "" if one in processes else "  [left alone: --all takes it too]"
            click.echo(f"{one.told()}\n    {one.process.why}{left}", err=True)
        if not processes:
            return looked, processes, []
        order = Order("TERM" if which == "orphans" else "CONT", processes, grace)
        click.echo(order.command(), err=True)
        what = "End" if which == "orphans" else "Continue"
        ask_person(f"{what} {count(len(processes), 'process', 'processes')}?", yes=yes)
        return looked, processes, await repairs.carry_out(session, order)


def _end(
    ctx: click.Context,
    looked: Looked,
    processes: tuple[Repairable, ...],
    results: list[RepairResult],
    what: str,
    *,
    json: bool,
) -> NoReturn:
    if json:
        rows = [
            _row(one.repairable) | {"outcome": one.signalled.outcome, "text": one.signalled.text} for one in results
        ]
        _say_json({"results": rows}, looked)
    else:
        for one in results:
            mark = click.style("✓", fg="green") if one.good else click.style("✗", fg="red")
            click.echo(f"{mark} {one.repairable.name}: {one.signalled.text}")
        if not processes:
            click.echo(f"no {what} to mend")
        _tell_unknown(looked)
    if not processes and looked.unknown:
        ctx.exit(3)
    ctx.exit(int(not all(one.good for one in results)))


@click.command("port", cls=LaidOut)
@nodes
@connection_but("interval", "patience", "logs", "py_spy", "sudo", "read_only")
@click.option("--from", "wanted", metavar="PORT", type=click.IntRange(1024, 65535), default=29500, show_default=True,
              help="The first port to consider.")  # fmt: skip
@JSON
@click.pass_context
def port_command(ctx: click.Context, options: SessionOptions, wanted: int, json: bool) -> None:
    """Propose a rendezvous port that is free on all nodes: no socket has it, TIME_WAIT included. Opens nothing.

    Outside the range that the kernel gives to clients, where there is such a port. Exit code: 0 a port, 1 none,
    2 wrong usage, 3 no node reachable.
    """

    async def find() -> tuple[FreePort, dict[str, str]]:
        async with connected_session(options, Status()) as session:
            return await repairs.free_port(session, wanted)

    found, silent = interrupted_cleanly(find())
    if json:
        document = {"port": found.port, "outside_client_range": found.outside, "passed": list(found.passed)}
        click.echo(codec.dumps({"schema": 1, **document, "unknown": silent}, indent=2, ensure_ascii=False))
    else:
        click.echo("\n".join(repairs.port_text(found, silent)))
    ctx.exit(0 if found.port is not None else 3 if silent else 1)


@click.command("launch", cls=LaidOut)
@nodes
@connection_but("interval", "patience", "logs", "py_spy", "sudo", "read_only")
@JSON
def launch(options: SessionOptions, json: bool) -> None:
    """Print the environment and launch lines that would have caught this hang, by what the job lacks. Only reads.

    Exit code: 0 printed, 2 wrong usage, 3 no node reachable.
    """

    async def look() -> Catching:
        async with connected_session(options, Status()) as session:
            need_a_node(session)
            return catching(session.job())

    found = interrupted_cleanly(look())
    if json:
        document = {
            "schema": 1, "basis": found.basis, "present": list(found.present), "torchrun": found.torchrun,
            "srun": found.srun, "code": list(found.code),
            "environment": [{"name": one.name, "value": one.value, "why": one.why} for one in found.settings],
        }  # fmt: skip
        click.echo(codec.dumps(document, indent=2, ensure_ascii=False))
    else:
        click.echo("\n".join(found.text()))


@click.command("drain", cls=LaidOut)
@nodes
@connection_but("interval", "patience", "logs", "py_spy", "sudo", "read_only")
@click.option("--out", "out", metavar="NODE", multiple=True, help="The node to take out; repeatable.")
@click.option("--reason", metavar="WHY", default="taken out by hand", show_default=True, help="Why, for the scheduler.")
@YES
@click.pass_context
def drain_command(
    ctx: click.Context, options: SessionOptions, out: tuple[str, ...], reason: str, yes: bool
) -> None:  # fmt: skip
    """Take nodes out of the pool by the job's scheduler: scontrol update … state=drain, kubectl cordon. From here.

    What runs there goes on. Exit code: 0 all are out, 1 some are not, 2 wrong usage, 3 no node reachable.
    """
    refuse_read_only(options, "draining")
    if not out:
        raise click.UsageError("say which node to take out: --out NODE")

    async def take_out() -> bool:
        from hangtop.session.asking import draining

        async with connected_session(options, Status()) as session:
            need_a_node(session)
            commands = draining.commands(await repairs.settled(session), out, reason)
            click.echo("\n".join(commands), err=True)
            ask_person(f"Take {', '.join(out)} out?", yes=yes)
            results = [await draining.carry_out(session, command) for command in commands]
            for one in results:
                mark = click.style("✓", fg="green") if one.good else click.style("✗", fg="red")
                click.echo(f"{mark} {one.command}: {one.said}")
            return all(one.good for one in results)

    ctx.exit(int(not interrupted_cleanly(take_out())))


def _print(processes: Iterable[Repairable], what: str, command: str) -> None:
    import sys

    colour = wants_colour(sys.stdout)
    shown = list(processes)
    for one in shown:
        head = click.style(what, fg="yellow", bold=True) if colour else what
        click.echo(f"{head}  {one.told()}\n    {one.process.why}{'' if one.process.sure else ' (not certain)'}")
    if shown:
        click.echo(f"    $ {command} {' '.join(sorted({one.node for one in shown}))}")


def _tell_unknown(looked: Looked) -> None:
    for node, why in looked.unknown.items():
        click.echo(f"not known: {node}: {why}")


def _row(one: Repairable) -> dict[str, Any]:
    process = one.process
    return {
        "node": one.node, "pid": process.pid, "rank": process.rank, "role": process.role, "user": process.user,
        "run_id": process.run_id, "age_s": round(one.age, 1), "state": process.state, "gpu_memory": one.gpu_memory,
        "ports": process.ports, "command": process.command, "sure": process.sure, "why": process.why,
    }  # fmt: skip


def _say_json(document: dict[str, Any], looked: Looked) -> None:
    plain = {name: list(rows) for name, rows in document.items()}
    click.echo(codec.dumps({"schema": 1, **plain, "unknown": looked.unknown}, indent=2, ensure_ascii=False))


command = DefaultGroup(
    "repair",
    default="list",
    commands={
        "list": list_command, "orphans": orphans, "continue": continue_command, "port": port_command, "launch": launch,
        "drain": drain_command,
    },
    help="Mend what people mend at night: orphans, stopped ranks, a taken port, a launch that leaves no traces, a "
    "broken node. With nodes alone: list.",
)  # fmt: skip
