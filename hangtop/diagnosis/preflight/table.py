"""All checks of preflight, and what becomes of their cells: a table, red first, and findings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

from hangtop.diagnosis.finding import Evidence, Finding, Severity
from hangtop.diagnosis.preflight import host, network, software
from hangtop.diagnosis.preflight.scene import ORDER, CheckCell, Preflight, State

Check = Callable[[Preflight], Iterable[CheckCell]]

CHECKS: tuple[Check, ...] = (
    host.reachable,
    network.loopback,
    network.addresses,
    network.meeting_port,
    network.paths,
    network.mtu,
    network.adapters,
    software.gpus,
    software.versions,
    software.settings,
    host.open_files,
    host.memlock,
    host.shared_memory,
    host.disks,
    host.tracing,
    host.clocks,
)
"""In the order in which they are shown. A new check is one function and one line here."""

_SEVERITY: dict[State, Severity] = {"fail": "critical", "warn": "warning"}


def cells(scene: Preflight) -> list[CheckCell]:
    """Run every check; red first, then in the order of the checks and the nodes."""
    found = [(number, cell) for number, check in enumerate(CHECKS) for cell in check(scene)]
    found.sort(key=lambda item: (ORDER.index(item[1].state), item[0], item[1].node))
    return [cell for _, cell in found]


def findings(table: Iterable[CheckCell]) -> tuple[Finding, ...]:
    """One finding for each mistake, over all the nodes that make it."""
    grouped: dict[tuple[State, str, str, str], list[CheckCell]] = defaultdict(list)
    for cell in table:
        if cell.kind and cell.state in _SEVERITY:
            grouped[cell.state, cell.kind, cell.check, cell.figure].append(cell)
    return tuple(
        Finding(
            kind,
            _SEVERITY[state],
            0.95,
            f"{check} on {', '.join(cell.node for cell in same)}: {figure}",
            nodes=tuple(cell.node for cell in same),
            evidence=tuple(Evidence(f"preflight {check} on {cell.node}", None, cell.figure) for cell in same),
            advice=same[0].remedy,
        )
        for (state, kind, check, figure), same in grouped.items()
    )
