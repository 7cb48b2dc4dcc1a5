"""``hangtop repair …``: what people mend at night, each with its exact command, and never unasked."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable, Iterator, Sequence

import click

from collectors.probes.repair.ask import Signal
from hangtop.cli.answer import wants_colour
from hangtop.cli.groups import DefaultGroup
from hangtop.cli.node_command import NodeRun, Reply, node_command
from hangtop.cli.probe import painted
from hangtop.diagnosis.environment.next_run import next_run
from hangtop.diagnosis.phrasing import count
from hangtop.session.probes import Probe, ProbeRefused, ProbeResult
from hangtop.session.probes import drain as draining
from hangtop.session.probes import repair as repairs
from hangtop.session.probes.repair import Looked, Repairable

NAMES = click.option(
    "--pid", "names", metavar="NODE:PID", multiple=True, help="Only this one of those listed; repeatable."
)
reading = functools.partial(node_command, json="docs/probes.md")
changing = functools.partial(
    reading, yes="Do not ask: for scripts.", changes="repairs: they signal processes", node_needed=False
)


@reading("list", node_needed=False)
async def list_command(run: NodeRun) -> Reply:
    """List what can be mended now: orphans of an earlier run, and stopped ranks. Changes nothing.

    Exit code: 0 nothing to mend, 1 something, 2 wrong usage, 3 no node reachable.
    """
    run.status.say("looking for orphans and stopped ranks")
    looked = await repairs.look(run.session)
    lines = [*_listed(looked.orphans, "orphan", "orphans"), *_listed(looked.stopped, "stopped", "continue")]
    if not lines and not looked.unknown:
        lines = ["no orphan of an earlier run, no stopped rank"]
    document = {
        "orphans": [one.row() for one in looked.orphans], "stopped": [one.row() for one in looked.stopped],
        "unknown": looked.unknown,
    }  # fmt: skip
    code = 1 if looked.orphans or looked.stopped else 3 if looked.unknown else 0
    return Reply(document, [*lines, *_unknown(looked)], code)


@changing("orphans")
@NAMES
@click.option("--all", "doubtful", is_flag=True, help="Also those whose run may still be at work.")
@click.option("--grace", metavar="S", type=click.FloatRange(0, 300), default=5.0, show_default=True,
              help="Seconds between SIGTERM and SIGKILL.")  # fmt: skip
async def orphans(run: NodeRun, names: tuple[str, ...], doubtful: bool, grace: float) -> Reply:
    """End processes that an earlier run left behind: SIGTERM, then SIGKILL to what is left after the grace.

    An orphan carries a rank, is none of the running job's, and nobody who started it is left. Exit code: 0 all are
    gone or there was none, 1 some are left, 2 wrong usage, 3 no node reachable.
    """
    looked = await _look(run)
    return await _signalled(run, looked, looked.orphans, names, "TERM", grace, doubtful=doubtful)


@changing("continue")
@NAMES
async def continue_command(run: NodeRun, names: tuple[str, ...]) -> Reply:
    """Let stopped ranks (state T) of the running job go on: SIGCONT.

    Exit code: 0 all go on or none was stopped, 1 some do not, 2 wrong usage, 3 no node reachable.
    """
    looked = await _look(run)
    return await _signalled(run, looked, looked.stopped, names, "CONT", 0.0, doubtful=True)


async def _look(run: NodeRun) -> Looked:
    run.status.say("looking")
    return await repairs.look(run.session)


async def _signalled(
    run: NodeRun, looked: Looked, there: Sequence[Repairable], names: Sequence[str], signal: Signal, grace: float, *,
    doubtful: bool,
) -> Reply:  # fmt: skip
    """Show, ask, act: over the connection that was looked through, so that what was shown is what is signalled."""
    wrong = sorted(set(names) - {one.name for one in there})
    if wrong:
        listed = ", ".join(one.name for one in there) or "none"
        raise click.UsageError(f"--pid {wrong[0]} is not among those that can be mended now: {listed}")
    processes = repairs.chosen(there, names, doubtful=doubtful)
    ends = signal == "TERM"
    run.status.clear()
    for one in there:
        left = "" if one in processes else "  [left alone: --all takes it too]"
        click.echo(f"{one.told()}\n    {one.process.why}{left}", err=True)
    if not processes:
        lines = [f"no {'orphan' if ends else 'stopped process'} to mend", *_unknown(looked)]
        return Reply({"results": [], "unknown": looked.unknown}, lines, 3 if looked.unknown else 0)
    what = f"{'End' if ends else 'Continue'} {count(len(processes), 'process', 'processes')}"
    result = await _run(run, repairs.signal_probe(run.session, what, signal, processes, grace), f"{what}?")
    document = dict(result.figures) | {"unknown": looked.unknown}
    return Reply(document, [*painted(result.lines), *_unknown(looked)], int(result.outcome != "ok"))


async def _run(run: NodeRun, probe: Probe, question: str) -> ProbeResult:
    run.agree(question, probe.command)
    try:
        return await probe.run(run.status.say)
    except ProbeRefused as refused:
        raise click.ClickException(str(refused)) from None


@reading("port")
@click.option("--from", "wanted", metavar="PORT", type=click.IntRange(1024, 65535), default=29500, show_default=True,
              help="The first port to consider.")  # fmt: skip
async def port_command(run: NodeRun, wanted: int) -> Reply:
    """Propose a rendezvous port that is free on all nodes: no socket has it, TIME_WAIT included. Opens nothing.

    Outside the range that the kernel gives to clients, where there is such a port. Exit code: 0 a port, 1 none,
    2 wrong usage, 3 no node reachable.
    """
    found, silent = await repairs.free_port(run.session, wanted)
    document = {
        "port": found.port, "outside_client_range": found.outside, "passed": list(found.passed), "unknown": silent,
    }  # fmt: skip
    return Reply(document, repairs.port_text(found, silent), 0 if found.port is not None else 3 if silent else 1)


@reading("launch")
async def launch(run: NodeRun) -> Reply:
    """Print the environment and launch lines that would have caught this hang, by what the job lacks. Only reads.

    Exit code: 0 printed, 2 wrong usage, 3 no node reachable.
    """
    found = next_run(run.session.job())
    document = {
        "torchrun": found.torchrun, "srun": found.srun, "code": list(found.code),
        "environment": [{"name": one.name, "value": one.value, "why": one.why} for one in found.settings],
    }  # fmt: skip
    return Reply(document, found.text())


@changing("drain", changes="draining", node_needed=True)
@click.option("--out", "out", metavar="NODE", multiple=True, help="The node to take out; repeatable.")
@click.option("--reason", metavar="WHY", default="taken out by hand", show_default=True, help="Why, for the scheduler.")
async def drain_command(run: NodeRun, out: tuple[str, ...], reason: str) -> Reply:
    """Take nodes out of the pool by the job's scheduler: scontrol update … state=drain, kubectl cordon. From here.

    What runs there goes on. Exit code: 0 all are out, 1 some are not, 2 wrong usage, 3 no node reachable.
    """
    if not out:
        raise click.UsageError("say which node to take out: --out NODE")
    commands = draining.commands(await repairs.settled(run.session), out, reason)
    run.agree(f"Take {', '.join(out)} out?", *commands)
    results = [await draining.drain_probe(run.session, command).run(run.status.say) for command in commands]
    lines = [line for result in results for line in painted(result.lines)]
    bad = any(result.outcome != "ok" for result in results)
    return Reply({"results": [dict(result.figures) for result in results]}, lines, int(bad))


def _listed(processes: Iterable[Repairable], what: str, mend: str) -> Iterator[str]:
    shown = list(processes)
    head = click.style(what, fg="yellow", bold=True) if wants_colour(sys.stdout) else what
    for one in shown:
        yield f"{head}  {one.told()}\n    {one.process.why}{'' if one.process.sure else ' (not certain)'}"
    if shown:
        yield f"    $ hangtop repair {mend} {' '.join(sorted({one.node for one in shown}))}"


def _unknown(looked: Looked) -> list[str]:
    return [f"not known: {node}: {why}" for node, why in looked.unknown.items()]


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
