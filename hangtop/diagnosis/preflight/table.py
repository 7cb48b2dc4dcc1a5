"""All checks of preflight, and their answers as a table and as findings."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from hangtop.diagnosis.finding import Evidence, Finding, Observer, Severity
from hangtop.diagnosis.preflight.compared import ALIKE, addresses, meeting_port, topology
from hangtop.diagnosis.preflight.own import NODE_CHECKS
from hangtop.diagnosis.preflight.scene import CheckCell, Preflight, State


def reach(scene: Preflight) -> Iterator[CheckCell]:
    """Whether the node answered, and whether all of it could be read."""
    for name, node in sorted(scene.job.nodes.items()):
        if name in scene.silent:
            why = f"connected, but the checks were not answered: {scene.silent[name]}"
            yield CheckCell("reach", name, "unknown", why)
        elif node.link in ("live", "offline"):
            yield CheckCell("reach", name, "ok", "answers")
        elif node.link == "limited":
            yield CheckCell("reach", name, "warn", node.why, "node_limited")
        else:
            remedy = f"Reach it by hand in the same way, such as: ssh {shlex.quote(name)} true"
            yield CheckCell("reach", name, "fail", node.why or f"is {node.link}", "node_unreachable", remedy)


CHECKS: tuple[Callable[[Preflight], Iterator[CheckCell]], ...] = (
    reach, addresses, meeting_port, topology, *(row.cells for row in NODE_CHECKS), *(row.cells for row in ALIKE),
)  # fmt: skip
ORDER: tuple[State, ...] = ("fail", "warn", "unknown", "ok")
"""Red first."""
_SEVERITY: dict[State, Severity] = {"fail": "critical", "warn": "warning"}


def cells(scene: Preflight) -> list[CheckCell]:
    """Run every check; red first, then in the order of the checks and the nodes."""
    found = [cell for check in CHECKS for cell in sorted(check(scene))]
    return sorted(found, key=lambda cell: ORDER.index(cell.state))


def findings(table: Iterable[CheckCell]) -> tuple[Finding, ...]:
    """One finding for each mistake, over all the nodes that make it."""
    grouped: dict[tuple[State, str, str, str], list[CheckCell]] = defaultdict(list)
    for cell in table:
        if cell.kind and cell.state in _SEVERITY:
            grouped[cell.state, cell.kind, cell.check, cell.figure].append(cell)
    return tuple(
        Finding(
            kind, _SEVERITY[state], 0.95, f"{check} on {', '.join(cell.node for cell in same)}: {figure}",
            nodes=tuple(cell.node for cell in same),
            evidence=tuple(Evidence(
                Observer.PROBE, f"preflight {check} on {cell.node}", None, cell.figure
            ) for cell in same),
            advice=same[0].remedy,
        )
        for (state, kind, check, figure), same in grouped.items()
    )  # fmt: skip
