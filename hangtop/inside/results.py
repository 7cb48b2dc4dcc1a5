"""Result of a check, with findings: for the caller, as JSON, on standard error and on the shared page."""

from __future__ import annotations

import json
import time
from typing import Dict, List, NamedTuple, Sequence, Tuple

from collectors.samples.page import ANSWER_LIMIT
from hangtop.inside.steps import telling

EVIDENCE = 8
"""Most lines of evidence of a finding."""
FINDINGS = 12
"""Most findings of one check; more findings are only counted."""
KEPT = 16
"""Most results on the page."""
RANKS = 128
"""Most ranks of a group on the page."""


class Noted(NamedTuple):
    """One finding. ``docs/findings.md`` lists the kinds."""

    kind: str
    severity: str
    """``critical``, ``warning`` or ``info``."""
    summary: str
    ranks: Sequence[int] = ()
    """The culprits."""
    evidence: Sequence[str] = ()
    advice: str = ""

    def row(self) -> Dict[str, object]:
        """The finding for JSON."""
        return {**self._asdict(), "ranks": list(self.ranks), "evidence": list(self.evidence)[:EVIDENCE]}


class CheckResult(NamedTuple):
    """Result of one check; true if all ranks came and nothing is wrong."""

    check: str
    ranks: Sequence[int]
    """Ranks of the group that made the check."""
    summary: str
    findings: Sequence[Noted] = ()
    seconds: float = 0.0
    at: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether nothing worse than information was found."""
        return all(finding.severity == "info" for finding in self.findings)

    def __bool__(self) -> bool:
        return self.ok

    def row(self) -> Dict[str, object]:
        """The result for JSON."""
        rows = [finding.row() for finding in self.findings[:FINDINGS]]
        return {**self._asdict(), "ranks": list(self.ranks), "ok": self.ok, "findings": rows}

    def json(self) -> str:
        """The result as one line of JSON."""
        return json.dumps(self.row())

    def __str__(self) -> str:
        lines = ["check %s: %s" % (self.check, self.summary)]
        for finding in self.findings:
            lines.append("  %s: %s" % (finding.kind, finding.summary))
            lines += ["    %s" % line for text in finding.evidence for line in text.split("\n")]
        return "\n".join(lines)


_latest: Dict[Tuple[str, Tuple[int, ...]], CheckResult] = {}
"""By check and ranks, oldest first, so that the result of one group does not replace that of another group."""


def publish(result: CheckResult, *, speaks: bool) -> CheckResult:
    """Put a result on the page; also on standard error if it is not ok and this rank ``speaks`` for its group."""
    result = result._replace(at=time.time())
    key = result.check, tuple(result.ranks)
    _latest.pop(key, None)
    _latest[key] = result
    if len(_latest) > KEPT:
        del _latest[next(iter(_latest))]
    page = telling.page
    if page is not None:
        page.answer(packed(list(_latest.values())))
    if speaks and not result.ok:
        telling.say("hangtop.inside: " + str(result) + "\n")
    return result


def packed(results: List[CheckResult]) -> bytes:
    """The latest results for the page: each shortened, and without the oldest if not all fit."""
    rows = [_shortened(result).row() for result in results]
    text = json.dumps(rows).encode()
    return text if len(text) <= ANSWER_LIMIT or not results else packed(results[1:])


def _shortened(result: CheckResult) -> CheckResult:
    kept = [
        finding._replace(summary=finding.summary[:400], ranks=finding.ranks[:RANKS],
                         evidence=[line[:200] for line in finding.evidence[:2]])
        for finding in result.findings[:3]
    ]  # fmt: skip
    return result._replace(findings=kept, ranks=result.ranks[:RANKS], summary=result.summary[:600])
