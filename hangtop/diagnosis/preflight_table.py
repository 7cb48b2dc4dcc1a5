"""The answers of preflight's checks, as a table and as findings."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from hangtop.diagnosis.finding import READ_ITSELF, Evidence, Finding, Observer
from hangtop.diagnosis.preflight import CHECKS, ORDER, REACH, UNKNOWN, Answer, Check, CheckCell, Preflight, State, reach
from hangtop.diagnosis.rules import gpus
from hangtop.diagnosis.rules.nodes import storage_stalled, topology_differs

HARDWARE = (*gpus.RULES, storage_stalled, topology_differs)


def cells(scene: Preflight) -> list[CheckCell]:
    """Run every check; red first, then in the order of the checks and the nodes."""
    answers = [(REACH, node.name, reach(scene, node)) for _, node in sorted(scene.job.nodes.items())]
    answers += [(check, name, answer) for check in CHECKS for name, answer in _answers(check, scene)]
    return sorted((*map(_cell, answers), *_hardware(scene)), key=lambda cell: ORDER.index(cell.state))


def _hardware(scene: Preflight) -> Iterator[CheckCell]:
    """What the rules about GPUs, wiring and storage find on the nodes; a node may have several such cells."""
    findings = [finding for rule in HARDWARE for finding in rule(scene.job) if finding.severity != "info"]
    wrong = {name for finding in findings for name in finding.nodes}
    for finding in findings:
        state: State = "fail" if finding.severity == "critical" else "warn"
        for name in finding.nodes:
            yield CheckCell("hardware", name, state, finding.summary, finding.kind, finding.advice)
    yield from (
        CheckCell("hardware", node.name, "ok", "no fault")
        for node in scene.nodes()
        if node.gpus and node.name not in wrong
    )


def _cell(answered: tuple[Check, str, Answer]) -> CheckCell:
    check, node, answer = answered
    if answer[0] is not False:
        return CheckCell(check.name, node, "ok" if answer[0] else "unknown", answer[1])
    remedy = answer[2] if len(answer) == 3 else check.remedy
    return CheckCell(check.name, node, check.state, answer[1], check.kind, remedy)


def _answers(check: Check, scene: Preflight) -> Iterator[tuple[str, Answer]]:
    """Answers by node; none for a node to which the check does not apply."""
    if check.measure is not None:
        for node in scene.nodes():
            if (answer := check.measure(scene, node)) is not None:
                yield node.name, answer
    if check.alike is not None:
        values = {node.name: check.alike(scene, node) for node in scene.nodes()}
        counted = Counter(value for value in values.values() if value is not None)
        usual = counted.most_common(1)[0][0] if counted else ""
        for name, value in values.items() if any(counted) else ():
            well = value == usual
            text = value if well else f"{value or 'none'}, elsewhere {usual or 'none'}"
            yield name, UNKNOWN if value is None else (well, text or "")


def findings(table: Iterable[CheckCell]) -> tuple[Finding, ...]:
    """One finding for each check and figure that fails, over all nodes that share it."""
    grouped: dict[CheckCell, list[str]] = defaultdict(list)
    for cell in table:
        if cell.kind:
            grouped[cell._replace(node="")].append(cell.node)
    return tuple(
        Finding(
            cell.kind, "critical" if cell.state == "fail" else "warning", READ_ITSELF,
            f"{cell.check} on {', '.join(names)}: {cell.figure}", nodes=tuple(names), advice=cell.remedy,
            evidence=tuple(Evidence(Observer.PROBE, f"preflight {cell.check} on {name}", None, cell.figure)
                           for name in names),
        )
        for cell, names in grouped.items()
    )  # fmt: skip
