"""A finding about one setting of the environment, as all rules of the lint say it."""

from __future__ import annotations

from collections.abc import Iterable

from hangtop.diagnosis.environment.settings import Setting
from hangtop.diagnosis.finding import Evidence, Finding, Severity
from hangtop.diagnosis.job import Rank
from hangtop.diagnosis.phrasing import ranks_on


def finding_about(
    kind: str,
    severity: Severity,
    ranks: Iterable[Rank],
    setting: Setting,
    summary: str,
    advice: str,
    weight: float = 0.9,
) -> Finding:
    """What is wrong with ``setting`` on these ranks (one at least); its evidence is the first one's environment."""
    holders = tuple(ranks)
    name, value = setting
    first = holders[0]
    return Finding(
        kind,
        severity,
        weight,
        summary,
        ranks=tuple(rank.rank for rank in holders),
        nodes=tuple(sorted({rank.node for rank in holders})),
        evidence=(Evidence(told_by(first, name), None, f"{name}={value}"),),
        advice=advice,
    )


def told_by(rank: Rank, name: str) -> str:
    """Where a rank has a setting from: its environment, or a file that NCCL reads beside it."""
    file = rank.process.conf.get(name)
    own = f"environment of {ranks_on([rank.rank], [rank.node])}"
    return own if file is None else f"{own}, by {file}"
