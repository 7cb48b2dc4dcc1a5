"""``hangtop repair …``: what people mend at night, each with its exact command, and never unasked."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import click

from collectors.probes.repair import Signal
from hangtop.cli.groups import DefaultGroup
from hangtop.cli.node_command import NodeRun, Reply, node_command, painted
from hangtop.diagnosis.environment.next_run import CODE, next_run
from hangtop.diagnosis.phrasing import count
from hangtop.session.probes import repair
from hangtop.session.probes.repair import Repairable, RepairSurvey

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
    survey = await _look(run)
    lines = []
    for what, mend, processes in (("orphan", "orphans", survey.orphans), ("stopped", "continue", survey.stopped)):
        lines += [f"{what}  {one.text()}\n    {one.process.why}" for one in processes]
        if processes:
            lines.append(f"    $ hangtop repair {mend} {' '.join(sorted({one.node for one in processes}))}")
    if not lines and not survey.unknown:
        lines = ["no orphan of an earlier run, no stopped rank"]
    document = {
        "orphans": [one.row() for one in survey.orphans], "stopped": [one.row() for one in survey.stopped],
        "unknown": survey.unknown,
    }  # fmt: skip
    code = 1 if survey.orphans or survey.stopped else 3 if survey.unknown else 0
    return Reply(document, [*lines, *_unknown(survey)], code)


@changing("orphans")
@NAMES
async def orphans(run: NodeRun, names: tuple[str, ...]) -> Reply:
    """End processes that an earlier run left behind: SIGTERM, then SIGKILL to what is left after five seconds.

    An orphan carries a rank, is none of the running job's, and its launcher is gone. Exit code: 0 all are gone or there
    was none, 1 some are left, 2 wrong usage, 3 no node reachable.
    """
    survey = await _look(run)
    return await _signal(run, survey, survey.orphans, names, "TERM")


@changing("continue")
@NAMES
async def continue_command(run: NodeRun, names: tuple[str, ...]) -> Reply:
    """Let stopped ranks (state T) of the running job go on: SIGCONT.

    Exit code: 0 all go on or none was stopped, 1 some do not, 2 wrong usage, 3 no node reachable.
    """
    survey = await _look(run)
    return await _signal(run, survey, survey.stopped, names, "CONT")


async def _look(run: NodeRun) -> RepairSurvey:
    run.status.say("looking for orphans and stopped ranks")
    return await repair.look(run.session)


async def _signal(
    run: NodeRun, survey: RepairSurvey, there: Sequence[Repairable], names: tuple[str, ...], signal: Signal
) -> Reply:
    """Show, ask, act: over the connection that was looked through, so that what was shown is what is signalled."""
    if wrong := sorted(set(names) - {one.name for one in there}):
        listed = ", ".join(one.name for one in there) or "none"
        raise click.UsageError(f"--pid {wrong[0]} is not among those that can be mended now: {listed}")
    processes = [one for one in there if not names or one.name in names]
    if not processes:
        lines = [f"no {'orphan' if signal == 'TERM' else 'stopped process'} to mend", *_unknown(survey)]
        return Reply({"results": [], "unknown": survey.unknown}, lines, 3 if survey.unknown else 0)
    what = f"{'End' if signal == 'TERM' else 'Continue'} {count(len(processes), 'process', 'processes')}"
    probe = repair.signal_probe(run.session, what, signal, processes)
    run.agree(f"{what}?", *(f"{one.text()}\n    {one.process.why}" for one in processes), probe.command)
    result = await run.measure(probe)
    document = dict(result.figures) | {"unknown": survey.unknown}
    return Reply(document, [*painted(result.lines), *_unknown(survey)], int(result.outcome != "ok"))


@reading("launch", node_needed=True)
async def launch(run: NodeRun) -> Reply:
    """Print the environment and launch lines that would have caught this hang, by what the job lacks. Only reads.

    Exit code: 0 printed, 2 wrong usage, 3 no node reachable.
    """
    found = next_run(run.session.job())
    document = {
        "torchrun": found.torchrun, "code": list(CODE),
        "environment": [{"name": one.name, "value": one.value, "why": one.why} for one in found.settings],
    }  # fmt: skip
    return Reply(document, found.text())


def _unknown(survey: RepairSurvey) -> list[str]:
    return [f"not known: {node}: {why}" for node, why in survey.unknown.items()]


command = DefaultGroup(
    "repair",
    default="list",
    commands={
        "list": list_command, "orphans": orphans, "continue": continue_command, "launch": launch,
    },
    help="Mend what people mend at night: orphans, stopped ranks, a launch that leaves no traces. "
    "With nodes alone: list.",
)  # fmt: skip
