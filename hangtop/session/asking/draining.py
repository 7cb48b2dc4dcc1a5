"""Taking a node out of the pool: the scheduler's own command, run on this machine once somebody said yes to it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from collectors.fleet.clean import clean_bytes
from collectors.fleet.local import Local
from collectors.fleet.targets.chosen import TargetError
from collectors.fleet.transport import TransportError
from hangtop.diagnosis.finding import Verdict
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.verdict.drain import drain_commands
from hangtop.session.asking.repairs import RepairRefused
from hangtop.session.options import SessionOptions

_DEADLINE = 60.0
_LIMIT = 1 << 20
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._,-]{0,1000}\Z")


class MayDrain(Protocol):
    """What draining needs of a session."""

    options: SessionOptions


@dataclass(frozen=True, slots=True)
class Drained:
    """What became of one command."""

    command: str
    good: bool
    said: str


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


async def carry_out(session: MayDrain, command: str) -> Drained:
    """Run one of these commands. Raises :class:`RepairRefused` in a session that may only look, or for any other."""
    if session.options.read_only:
        raise RepairRefused("--read-only refuses draining")
    words = _words(command)
    if not words:
        raise RepairRefused(f"this takes no node out: {command}")
    try:
        done = await Local("this machine").run(words, timeout=_DEADLINE, limit=_LIMIT)
    except TransportError as error:
        return Drained(command, good=False, said=str(error))
    said = (clean_bytes(done.stderr) + clean_bytes(done.stdout)).strip()
    return Drained(command, done.status == 0, said or ("done" if done.status == 0 else f"status {done.status}"))


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
