"""Where a job stands, in words that are the same whenever it stands there: pauses are known by them."""

from __future__ import annotations

from hangtop.diagnosis.waits.graph import WaitGraph
from hangtop.diagnosis.waits.rank_status import RankStatus

MOST = 4
"""Places of one standing job that are told: where more ranks are elsewhere, it stands at none in particular."""


def standing_at(graph: WaitGraph | None) -> str:
    """What those do that are waited for, else where the ranks wait: ``data in read_shard (data.py)``.

    Without lines, as one looks at other lines of one loop each time; empty where nobody waits or nothing was seen.
    """
    if graph is None:
        return ""
    held = graph.culprits or tuple(point.members[0] for point in graph.points)
    places = sorted({_place(status) for status in held})
    return "; ".join(filter(None, places)) if len(places) <= MOST else ""


def _place(status: RankStatus) -> str:
    doing = status.activity
    if doing is None or doing.error:
        return ""
    function = status.where.rpartition(":")[0]
    phases = " ".join(sorted({doing.kind, *doing.context}))
    return f"{phases} in {function})" if function else phases
