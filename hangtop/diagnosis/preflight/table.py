"""All checks of preflight, and what becomes of their answers: a table, red first, and findings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

from hangtop.diagnosis.finding import Evidence, Finding, Observer, Severity
from hangtop.diagnosis.job import Node
from hangtop.diagnosis.preflight import alone, compared
from hangtop.diagnosis.preflight.scene import Answers, CheckAnswer, CheckCell, Preflight, State

Check = Callable[[Preflight], Answers]
ORDER: tuple[State, ...] = ("fail", "warn", "unknown", "ok")
"""Red first."""


def each(check: Callable[[Preflight, Node], CheckAnswer | None]) -> Check:
    """A check of one node, asked of every node that answers."""

    def checked(scene: Preflight) -> Answers:
        for node in scene.nodes():
            if (answer := check(scene, node)) is not None:
                yield node.name, answer

    return checked


CHECKS: tuple[tuple[str, Check], ...] = (
    ("reach", alone.reach),
    ("loopback", each(alone.loopback)),
    ("address", compared.addresses),
    ("port", compared.meeting_port),
    ("paths", each(compared.paths)),
    ("MTU", compared.mtu),
    ("fabric", compared.adapters),
    ("GPUs", compared.gpus),
    ("PCIe", each(alone.pcie)),
    ("versions", compared.versions),
    ("open files", each(alone.open_files)),
    ("memlock", each(alone.memlock)),
    ("/dev/shm", each(alone.shared_memory)),
    ("disk", each(alone.disks)),
    ("ptrace", each(alone.tracing)),
)
"""In the order in which they are shown. A new check is one function and one line here."""

_SEVERITY: dict[State, Severity] = {"fail": "critical", "warn": "warning"}


def cells(scene: Preflight) -> list[CheckCell]:
    """Run every check; red first, then in the order of the checks and the nodes."""
    found = [CheckCell(name, node, *answer) for name, check in CHECKS for node, answer in sorted(check(scene))]
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
