"""``hangtop repair …``: what people mend at night, each with its exact command, and never unasked."""

from __future__ import annotations

import functools

import click

from collectors.probes.repair import Signal
from hangtop.cli.groups import DefaultGroup
from hangtop.cli.node_command import NodeRun, Reply, node_command, painted
from hangtop.diagnosis.environment.next_run import next_run
from hangtop.session.probes.repair import RepairSurvey, signal_probe, survey

NAMES = click.option(
    "--pid", "names", metavar="NODE:PID", multiple=True, help="Only this one of those listed; repeatable."
)
reading = functools.partial(node_command, json="docs/probes.md", node_needed=False, needs=("ranks",))
changing = functools.partial(reading, yes="Do not ask: for scripts.", changes="repairs: they signal processes")


@reading("list")
async def list_command(run: NodeRun) -> Reply:
    """List what can be mended now: orphans of an earlier run, and stopped ranks. Changes nothing.

    Exit code: 0 nothing to mend, 1 something, 2 wrong usage, 3 no node reachable.
    """
    found = survey(run.session.job())
    lines = []
    for what, mend, processes in (("orphan", "orphans", found.orphans), ("stopped", "continue", found.stopped)):
        lines += [f"{what}  {one.text()}\n    {one.why}" for one in processes]
        if processes:
            lines.append(f"    $ hangtop repair {mend} {' '.join(sorted({one.rank.node for one in processes}))}")
    if not lines and not found.unknown:
        lines = ["no orphan of an earlier run, no stopped rank"]
    document = {
        "orphans": [one.row() for one in found.orphans], "stopped": [one.row() for one in found.stopped],
        "unknown": found.unknown,
    }  # fmt: skip
    code = 1 if found.orphans or found.stopped else 3 if found.unknown else 0
    return Reply(document, [*lines, *_unknown(found)], code)


@changing("orphans")
@NAMES
async def orphans(run: NodeRun, names: tuple[str, ...]) -> Reply:
    """End processes that an earlier run left behind: SIGTERM, then SIGKILL to what is left after five seconds.

    An orphan is a rank whose launcher is gone, of another run than the job or of one that has lost ranks. Exit code:
    0 all are gone or there was none, 1 some are left, 2 wrong usage, 3 no node reachable.
    """
    return await _signal(run, names, "TERM")


@changing("continue")
@NAMES
async def continue_command(run: NodeRun, names: tuple[str, ...]) -> Reply:
    """Let stopped ranks (state T) of the running job go on: SIGCONT.

    Exit code: 0 all go on or none was stopped, 1 some do not, 2 wrong usage, 3 no node reachable.
    """
    return await _signal(run, names, "CONT")


async def _signal(run: NodeRun, names: tuple[str, ...], signal: Signal) -> Reply:
    """Show, ask, act."""
    found = survey(run.session.job())
    there = found.orphans if signal == "TERM" else found.stopped
    if wrong := sorted(set(names) - {one.name for one in there}):
        listed = ", ".join(one.name for one in there) or "none"
        raise click.UsageError(f"--pid {wrong[0]} is not among those that can be mended now: {listed}")
    processes = [one for one in there if not names or one.name in names]
    if not processes:
        lines = [f"no {'orphan' if signal == 'TERM' else 'stopped rank'} to mend", *_unknown(found)]
        return Reply({"results": [], "unknown": found.unknown}, lines, 3 if found.unknown else 0)
    probe = signal_probe(run.session, signal, processes)
    run.agree(f"{probe.title}?", probe.risk, probe.command)
    result = await run.measure(probe)
    document = dict(result.figures) | {"unknown": found.unknown}
    return Reply(document, [*painted(result.lines), *_unknown(found)], int(result.outcome != "ok"))


@reading("launch", node_needed=True)
async def launch(run: NodeRun) -> Reply:
    """Print the environment and launch line that would have caught this hang, by what the job lacks. Only reads.

    Exit code: 0 printed, 2 wrong usage, 3 no node reachable.
    """
    found = next_run(run.session.job())
    document = {"torchrun": found.torchrun, "environment": [one._asdict() for one in found.settings]}
    return Reply(document, found.text())


def _unknown(found: RepairSurvey) -> list[str]:
    return [f"not known: {node}: {why}" for node, why in found.unknown.items()]


command = DefaultGroup(
    "repair", default="list",
    commands={"list": list_command, "orphans": orphans, "continue": continue_command, "launch": launch},
    help="Mend what people mend at night: orphans, stopped ranks, a launch that leaves no traces. "
    "With nodes alone: list.",
)  # fmt: skip
