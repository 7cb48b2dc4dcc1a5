"""``hangtop repair …``: each repair shows its exact command, and asks."""

from __future__ import annotations

import functools

from hangtop.cli.answer import Reply
from hangtop.cli.node_command import NodeRun, node_command
from hangtop.diagnosis.phrasing import folded_names
from hangtop.session.probes import Probe
from hangtop.session.probes.repair import signal_probe, survey

reading = functools.partial(node_command, json="docs/probes.md", needs=("ranks",))


@reading("list", node_needed=False)
async def list_command(run: NodeRun) -> Reply:
    """List what can be repaired now: orphans of an earlier run, and stopped ranks. Changes nothing.

    Exit code: 0 nothing to repair, 1 something to repair, 2 wrong usage, 3 unknown for a node.
    """
    found = survey(run.session.job())
    lines = []
    for what, mend, processes in (("orphan", "orphans", found.orphans), ("stopped", "continue", found.stopped)):
        lines += [f"{what}  {process.text}\n    {process.why}" for process in processes]
        if processes:
            lines.append(f"    $ hangtop repair {mend} {' '.join(sorted({process.node for process in processes}))}")
    if not lines and not found.unknown:
        lines = [f"no orphan of an earlier run, no stopped rank on {folded_names(run.session.state.nodes)}"]
    lines += [f"not known: {', '.join(unknown.nodes)}: {unknown.why}" for unknown in found.unknown]
    document = {
        "orphans": [process._asdict() for process in found.orphans],
        "stopped": [process._asdict() for process in found.stopped],
        "unknown": {node: unknown.why for unknown in found.unknown for node in unknown.nodes},
    }  # fmt: skip
    return Reply(document, lines, 1 if found.orphans or found.stopped else 3 if found.unknown else 0)


changing = functools.partial(reading, changes="repairs: they signal processes")


@changing("orphans")
async def orphans(run: NodeRun) -> Probe:
    """End processes that an earlier run left behind: SIGTERM, and SIGKILL after five seconds.

    An orphan is a rank of another run than the job, whose launcher or fellow ranks on the node are gone. Exit code: 0
    all are gone or there was none, 1 some are left, 2 wrong usage, 3 no node reachable.
    """
    found = survey(run.session.job())
    return signal_probe(run.session, "TERM", found.orphans, found.unknown)


@changing("continue")
async def continue_command(run: NodeRun) -> Probe:
    """Continue stopped ranks (state T) of the running job: SIGCONT.

    Exit code: 0 all continue or none was stopped, 1 some do not, 2 wrong usage, 3 no node reachable.
    """
    found = survey(run.session.job())
    return signal_probe(run.session, "CONT", found.stopped, found.unknown)
