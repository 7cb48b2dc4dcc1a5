"""Taking a node out of the pool: the scheduler's own command, run on this machine once somebody said yes to it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection

from collectors.fleet.clean import clean_bytes
from collectors.fleet.local import Local
from collectors.fleet.targets.chosen import TargetError
from collectors.fleet.transport import TransportError
from hangtop.diagnosis.finding import Verdict
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.verdict.drain import drain_commands
from hangtop.session.probes import Line, Probe, ProbeRefused, ProbeResult, ProbeSession, Say, mark

_DEADLINE = 60.0
_LIMIT = 1 << 20
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._,-]{0,1000}\Z")


def drain_probe(session: ProbeSession, command: str, why: str = "") -> Probe:
    """Run one of these commands. Raises :class:`ProbeRefused` for any other."""
    words = _words(command)
    if not words:
        raise ProbeRefused(f"this takes no node out: {command}")

    async def run(_: Say) -> ProbeResult:
        if session.options.read_only:
            raise ProbeRefused("--read-only refuses draining")
        try:
            done = await Local("this machine").run(words, timeout=_DEADLINE, limit=_LIMIT)
            good, said = done.status == 0, (clean_bytes(done.stderr) + clean_bytes(done.stdout)).strip()
            said = said or ("done" if good else f"status {done.status}")
        except TransportError as error:
            good, said = False, str(error)
        figures = {"command": command, "ok": good, "text": said}
        line: Line = [mark(good=good), (f"{command}: {said}", "")]
        return ProbeResult(title, "ok" if good else "failed", said, (line,), figures)

    title = "Take a node out of the pool"
    return Probe(title, "by the scheduler, from this machine; what runs there goes on", command, run, why)


def commands(job: Job, nodes: Collection[str], reason: str) -> list[str]:
    """Commands that take these nodes of the session out.

    Raises :class:`TargetError` for a node that is none of the session's, or where no scheduler shows.
    """
    strangers = sorted(set(nodes) - set(job.nodes))
    if strangers:
        raise TargetError(f"{strangers[0]} is none of this session's nodes: {', '.join(sorted(job.nodes)) or 'none'}")
    found = drain_commands(job, nodes, f"hangtop: {reason}")
    if not found:
        raise TargetError("neither Slurm nor Kubernetes shows in the ranks' environments: nobody to tell")
    return found


def proposed(verdict: Verdict | None) -> list[tuple[str, str]]:
    """(command, why) of each command of the verdict's findings that takes a node out."""
    found: dict[str, str] = {}
    for finding in verdict.findings if verdict is not None else ():
        for step in finding.next:
            if _words(step.command):
                found.setdefault(step.command, finding.summary)
    return list(found.items())


def _words(command: str) -> list[str]:
    """Words of a command that takes a node out and does nothing else; none of any other."""
    try:
        words = shlex.split(command)
    except ValueError:
        return []
    match words:
        case ["scontrol", "update", node, "state=drain", reason]:
            name = node.removeprefix("nodename=")
            fits = node.startswith("nodename=") and reason.startswith("reason=")
        case ["kubectl", "cordon", name]:
            fits = True
        case _:
            return []
    return words if fits and _NODE.match(name) else []
