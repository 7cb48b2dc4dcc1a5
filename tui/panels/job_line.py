"""The job in one line: whether and how fast it moves, or since when it stands still."""

from __future__ import annotations

from collections.abc import Iterable

from hangtop.diagnosis.phrasing import count, ranks_text
from hangtop.session.motion.steps import JobSteps
from hangtop.session.state import Change
from tui.looks.format import age, clock
from tui.looks.signs import is_outcome, sign_of
from tui.looks.theme import Colour
from tui.ordering.rows import RankRow
from tui.view_model import ViewModel, letter_of
from tui.widgets.lines import Piece
from tui.widgets.metrics import WAITS, Metric, metrics_of

MANY = 256
"""Most ranks that are checked for the time of the stop if no rank is blamed."""


def job_line(model: ViewModel) -> list[Piece]:
    """Parts of the line, the most important first."""
    verdict = model.session.verdict
    if verdict is None or not model.ranks:
        return []
    steps = JobSteps(model.now - model.state.untold)
    for node in model.nodes:
        steps.take(node, model.session.unrelated)
    step: list[Piece] = [] if steps.last is None else [(f"last step {steps.last:,}", Colour.TEXT)]
    if model.waits:
        since = stopped_since(model, model.suspects or model.ranks[:MANY])
        waiting = sum(len(box.ranks) for box in model.waits if box.waits_for)
        when = "" if since is None else f"since {clock(since)}, {age(model.now - since)}"
        waits = f"{count(waiting, 'rank')} {'waits' if waiting == 1 else 'wait'}" if waiting else ""
        keys = "next: 7 proof, 8 stacks, x report"
        return [(when, Colour.TEXT), *step, (waits, Colour.TEXT), (keys, Colour.INFO)]
    ended = sum(row.rank.gone_at is not None for row in model.ranks)
    if model.outcome == "crashed":
        text = f"{ended:,} of {count(len(model.ranks), 'rank')} ended"
        keys = "next: 7 proof, 5 logs, x report"
        return [(_failed(model), Colour.TEXT), *step, (text, Colour.TEXT), (keys, Colour.INFO)]
    moving, alive = model.timeline.head.history.series["moving"].newest, model.count.ranks_alive
    pieces: list[Piece] = []
    if moving is not None and model.session.live and alive:
        colour = Colour.WARN if moving < alive else Colour.OK
        pieces.append((f"{moving:,.0f} of {count(alive, 'rank')} moving", colour))
    elif not alive and ended == len(model.ranks):
        pieces.append(("all ranks have ended", Colour.TEXT))
    if (pace := steps.per_second()) is not None and pace > 0:
        pieces.append((f"{1 / pace:.3g} s/step" if pace < 1 else f"{pace:.3g} steps/s", Colour.TEXT))
    odd = model.causes
    text = f"{count(odd, 'finding')}, next: 7 proof" if odd else "nothing odd"
    return [*pieces, *step, (text, Colour.WARN if odd else Colour.DIM)]


def _failed(model: ViewModel) -> str:
    """When the accused rank failed: from the evidence, else from the end of its process."""
    evidence = model.accusation.evidence if model.accusation is not None else ()
    at = [line.at for line in evidence if line.at is not None]
    gone = [row.rank.gone_at for row in model.suspects if row.rank.gone_at is not None]
    failed = min(at or gone, default=None)
    return "" if failed is None else f"failed {clock(failed)}, {age(model.now - failed)} ago"


def stopped_since(model: ViewModel, rows: Iterable[RankRow]) -> float | None:
    """The earliest time since which one of these ranks stands still."""
    stopped = model.timeline.head.progress.stopped
    found = (stopped.get((row.node.name, row.rank.process.pid)) for row in rows)
    return min((since for since in found if since is not None and since <= model.now), default=None)


def figures(model: ViewModel, metric: Metric) -> list[Piece]:
    """The range of the chosen figure, or the wait boxes by letter; then the number of GPUs without figures."""
    if not (model.ranks or model.gpus):
        return [("no GPU and no rank is known", Colour.STRONG)]
    pieces: list[Piece] = []
    if metric is WAITS:
        pieces.append(("waits", Colour.STRONG))
        for place, box in enumerate(model.waits[:4]):
            who = ranks_text(box.ranks) if len(box.ranks) < 4 else count(len(box.ranks), "rank")
            pieces.append((f"{letter_of(place)} {who}", Colour.BAD if box.blamed else Colour.TEXT))
    else:
        heard = [node for node in model.nodes if not model.stale(node) and metric in metrics_of(model, node)]
        values = [value for node in heard for value in metric.values(model, node)]
        least, most = (metric.text(min(values)), metric.text(max(values))) if values else ("", "")
        span = "not known" if not values else f"all {least}" if least == most else f"{least} to {most}"
        title = f"{'GPU ' if metric.of_gpu else ''}{metric.title}"
        pieces.append((f"{title} {span} {metric.unit if values else ''}".rstrip(), Colour.TEXT))
    missing = sum([not gpu.samples or gpu.fault is not None for _, gpu in model.gpus])
    return [*pieces, (f"▲ {count(missing, 'GPU')} without figures" if missing else "", Colour.BAD)]


def change_line(change: Change) -> list[Piece]:
    """One change as a line: time, node, text."""
    sign = sign_of(change.kind)
    return [
        (f" {clock(change.at)} ", Colour.DIM),
        (f"{sign.glyph} ", sign.colour),
        (f"{change.node} " if change.node else "", Colour.INFO),
        (f"{sign.label} " if is_outcome(change.kind) else "", sign.colour),
        (change.text, Colour.TEXT),
    ]
