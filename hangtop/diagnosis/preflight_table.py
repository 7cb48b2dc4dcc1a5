"""The answers of preflight's checks, as a table and as findings."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from hangtop.diagnosis.finding import READ_ITSELF, Evidence, Finding, Observer
from hangtop.diagnosis.preflight import CHECKS, ORDER, REACH, UNKNOWN, Answer, Check, CheckCell, Preflight, reach


def cells(scene: Preflight) -> list[CheckCell]:
    """Run every check; red first, then in the order of the checks and the nodes."""
    answers = [(REACH, node.name, reach(scene, node)) for _, node in sorted(scene.job.nodes.items())]
    answers += [(check, name, answer) for check in CHECKS for name, answer in _answers(check, scene)]
    return sorted((_cell(*answer) for answer in answers), key=lambda cell: ORDER.index(cell.state))


def _cell(check: Check, node: str, answer: Answer) -> CheckCell:
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
        told = Counter(one for one in values.values() if one is not None)
        usual = told.most_common(1)[0][0] if told else ""
        for name, one in values.items() if any(told) else ():
            well = one == usual
            text = one if well else f"{one or 'none'}, elsewhere {usual or 'none'}"
            yield name, UNKNOWN if one is None else (well, text or "")


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
