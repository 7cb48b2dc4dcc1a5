"""What came of the job in a line: is it moving, how fast, is anything odd; or since when it stands still."""

from __future__ import annotations

from collections.abc import Iterable

from hangtop.diagnosis.phrasing import ranks_text
from hangtop.session.motion.steps import JobSteps
from tui.looks.format import age, clock, plural
from tui.looks.theme import Colour
from tui.ordering.rows import RankRow
from tui.view_model import ViewModel
from tui.waits import letter_of
from tui.widgets.lines import Piece
from tui.widgets.metrics import WAITS, Metric, metrics_of

SLOW_CONNECT = 2.0
"""Seconds after which a node that still connects is named."""
MANY = 256
"""Ranks up to which all are asked since when they stand still, where nobody is blamed."""
_AFTER_HANG = (("7", "proof"), ("8", "stacks"), ("g", "graph"), ("x", "report"))
_AFTER_CRASH = (("7", "proof"), ("5", "logs"), ("x", "report"))


def story(model: ViewModel) -> list[list[Piece]]:
    """Parts of the line, the most telling first."""
    verdict = model.session.verdict
    if verdict is None or not model.ranks:
        return []
    steps = JobSteps(model.now)
    for node in model.nodes:
        steps.take(node, model.session.unrelated)
    if model.waits:
        return [*_hang(model, steps), _keys(_AFTER_HANG)]
    if model.crashed:
        return [*_crash(model, steps), _keys(_AFTER_CRASH)]
    return _going(model, steps)


def _going(model: ViewModel, steps: JobSteps) -> list[list[Piece]]:
    """Is it moving, how fast, is anything odd."""
    series = model.timeline.head.history.series
    moving, alive = series["moving"].newest, model.count.ranks_alive
    told: list[list[Piece]] = []
    if moving is not None and model.session.live and alive:
        still = moving < alive
        told.append([(f"{moving:,.0f} of {plural(alive, 'rank')} moving", Colour.WARN if still else Colour.OK)])
    if not alive and all(row.rank.gone_at is not None for row in model.ranks):
        told.append([("no rank runs any more", Colour.TEXT)])
    if (pace := steps.per_second(model.now)) is not None and pace > 0:
        told.append([(f"{1 / pace:.3g} s a step" if pace < 1 else f"{pace:.3g} steps/s", Colour.TEXT)])
    told += _step(steps)
    odd = model.causes
    told.append([(f"{plural(odd, 'finding')}, 7 tells" if odd else "nothing odd", Colour.WARN if odd else Colour.DIM)])
    return told


def _hang(model: ViewModel, steps: JobSteps) -> list[list[Piece]]:
    since = stopped_since(model, model.blamed or model.ranks[:MANY])
    waiting = sum(len(box.ranks) for box in model.waits if box.waits_for)
    told: list[list[Piece]] = []
    if since is not None:
        told.append([(f"since {clock(since, millis=False)}", Colour.TEXT), (f", {age(model.now - since)}", Colour.DIM)])
    told += _step(steps)
    if waiting:
        told.append([(f"{plural(waiting, 'rank')} {'waits' if waiting == 1 else 'wait'}", Colour.TEXT)])
    return told


def _crash(model: ViewModel, steps: JobSteps) -> list[list[Piece]]:
    """When the first whom the verdict names failed: as was told of it, else when it was seen to be gone."""
    verdict = model.session.verdict
    evidence = verdict.findings[0].evidence if verdict is not None and verdict.findings else ()
    at = [line.at for line in evidence if line.at is not None]
    gone = [row.rank.gone_at for row in model.suspects if row.rank.gone_at is not None]
    failed = min(at or gone, default=None)
    ended = sum(row.rank.gone_at is not None for row in model.ranks)
    told: list[list[Piece]] = []
    if failed is not None:
        text = f"failed {clock(failed, millis=False)}"
        told.append([(text, Colour.TEXT), (f", {age(model.now - failed)} ago", Colour.DIM)])
    return [*told, *_step(steps), [(f"{ended:,} of {plural(len(model.ranks), 'rank')} ended", Colour.TEXT)]]


def _step(steps: JobSteps) -> list[list[Piece]]:
    return [] if steps.last is None else [[("last step ", Colour.DIM), (f"{steps.last:,}", Colour.TEXT)]]


def _keys(keys: Iterable[tuple[str, str]]) -> list[Piece]:
    told: list[Piece] = [("next", Colour.DIM)]
    return [*told, *(piece for key, what in keys for piece in ((f" {key} ", Colour.ACCENT), (what, Colour.DIM)))]


def stopped_since(model: ViewModel, rows: Iterable[RankRow]) -> float | None:
    """Since when the first of these ranks stands still."""
    history = model.timeline.head.history
    found = [
        stopped
        for row in rows
        if (lane := history.ranks.get((row.node.name, row.rank.process.pid))) is not None
        and (stopped := lane.stopped(model.now)) is not None
    ]
    return min(found, default=None)


def figures(model: ViewModel, metric: Metric) -> list[list[Piece]]:
    """The chosen figure from least to most, or the letters of who waits; what is missing."""
    if not (model.ranks or model.gpus):
        return [[("no GPU and no rank is known", Colour.STRONG)], *_connecting(model)]
    told: list[list[Piece]] = []
    if metric is WAITS:
        told.append([("who waits", Colour.STRONG)])
        for place, box in enumerate(model.waits[:4]):
            who = ranks_text(box.ranks) if len(box.ranks) < 4 else plural(len(box.ranks), "rank")
            told.append([(f"{letter_of(place)} ", Colour.BAD if box.blamed else Colour.STRONG), (who, Colour.TEXT)])
    else:
        heard = [node for node in model.nodes if not model.stale(node) and metric in metrics_of(model, node)]
        values = [value for node in heard for value in metric.values(model, node)]
        least, most = (metric.text(min(values)), metric.text(max(values))) if values else ("", "")
        span = "not known" if not values else f"all {least}" if least == most else f"{least} to {most}"
        title = f"{'GPU ' if metric.of_gpu else ''}{metric.title} "
        told.append([(title, Colour.STRONG), (f"{span} {metric.unit if values else ''}", Colour.TEXT)])
    missing = sum(gpu.looks.newest is None or gpu.fault is not None for _, gpu in model.gpus)
    if missing:
        told.append([(f"▲ {plural(missing, 'GPU')} without figures", Colour.BAD)])
    return [*told, *_connecting(model)]


def _connecting(model: ViewModel) -> list[list[Piece]]:
    """N of M, and who is slow."""
    count = model.count
    if not count.nodes_asking or model.session.verdict is None:
        return []  # until there is a verdict that is what the first line says
    slow = [node for node in model.nodes if node.link == "connecting" and model.now - node.since > SLOW_CONNECT]
    told: list[Piece] = [("○ connecting ", Colour.DIM), (f"{count.nodes_up:,} of {count.nodes:,} nodes", Colour.TEXT)]
    if slow:
        worst = min(slow, key=lambda node: node.since)
        more = f" and {len(slow) - 1} more" if len(slow) > 1 else ""
        waited = age(model.now - worst.since)
        told.append((f", waiting {waited} for {model.names.of(worst.name)}{more}", Colour.WARN))
    return [told]
