"""What came of the job in a line: is it moving, how fast, is anything odd; or since when it stands still."""

from __future__ import annotations

from collections.abc import Iterable

from hangtop.session.motion.steps import JobSteps
from tui.looks.format import age, clock, plural
from tui.looks.theme import Tone
from tui.ordering.rows import RankRow
from tui.scene import Scene
from tui.widgets.lines import Piece

MANY = 256
"""Ranks up to which all are asked since when they stand still, where nobody is blamed."""
_AFTER_HANG = (("7", "proof"), ("8", "stacks"), ("g", "graph"), ("x", "report"))
_AFTER_CRASH = (("7", "proof"), ("5", "logs"), ("x", "report"))


def story(scene: Scene) -> list[list[Piece]]:
    """Parts of the line, the most telling first."""
    verdict = scene.session.verdict
    if verdict is None or not scene.ranks:
        return []
    steps = JobSteps(scene.now)
    for node in scene.nodes:
        steps.take(node, scene.session.strangers)
    if scene.waits:
        return [*_hang(scene, steps), _keys(_AFTER_HANG)]
    if scene.crashed:
        return [*_crash(scene, steps), _keys(_AFTER_CRASH)]
    return _going(scene, steps)


def _going(scene: Scene, steps: JobSteps) -> list[list[Piece]]:
    """Is it moving, how fast, is anything odd."""
    series, verdict = scene.timeline.head.history.series, scene.session.verdict
    moving, alive = series["moving"].newest, scene.count.ranks_alive
    told: list[list[Piece]] = []
    if moving is not None and scene.session.live and alive:
        still = moving < alive
        told.append([(f"{moving:,.0f} of {plural(alive, 'rank')} moving", Tone.WARN if still else Tone.OK)])
    if not alive and all(row.rank.gone_at is not None for row in scene.ranks):
        told.append([("no rank runs any more", Tone.TEXT)])
    if (pace := steps.per_second(scene.now)) is not None and pace > 0:
        told.append([(f"{1 / pace:.3g} s a step" if pace < 1 else f"{pace:.3g} steps/s", Tone.TEXT)])
    told += _step(steps)
    odd = len(verdict.findings) if verdict is not None else 0
    told.append([(f"{plural(odd, 'finding')}, 7 tells" if odd else "nothing odd", Tone.WARN if odd else Tone.DIM)])
    return told


def _hang(scene: Scene, steps: JobSteps) -> list[list[Piece]]:
    since = stopped_since(scene, scene.blamed or scene.ranks[:MANY])
    waiting = sum(len(box.ranks) for box in scene.waits if box.waits_for)
    told: list[list[Piece]] = []
    if since is not None:
        told.append([(f"since {clock(since, millis=False)}", Tone.TEXT), (f", {age(scene.now - since)}", Tone.DIM)])
    told += _step(steps)
    if waiting:
        told.append([(f"{plural(waiting, 'rank')} {'waits' if waiting == 1 else 'wait'}", Tone.TEXT)])
    return told


def _crash(scene: Scene, steps: JobSteps) -> list[list[Piece]]:
    """When the first whom the verdict names failed: as was told of it, else when it was seen to be gone."""
    verdict = scene.session.verdict
    evidence = verdict.findings[0].evidence if verdict is not None and verdict.findings else ()
    at = [line.at for line in evidence if line.at is not None]
    gone = [row.rank.gone_at for row in scene.suspects if row.rank.gone_at is not None]
    failed = min(at or gone, default=None)
    ended = sum(row.rank.gone_at is not None for row in scene.ranks)
    told: list[list[Piece]] = []
    if failed is not None:
        text = f"failed {clock(failed, millis=False)}"
        told.append([(text, Tone.TEXT), (f", {age(scene.now - failed)} ago", Tone.DIM)])
    return [*told, *_step(steps), [(f"{ended:,} of {plural(len(scene.ranks), 'rank')} ended", Tone.TEXT)]]


def _step(steps: JobSteps) -> list[list[Piece]]:
    return [] if steps.last is None else [[("last step ", Tone.DIM), (f"{steps.last:,}", Tone.TEXT)]]


def _keys(keys: Iterable[tuple[str, str]]) -> list[Piece]:
    told: list[Piece] = [("next", Tone.DIM)]
    return [*told, *(piece for key, what in keys for piece in ((f" {key} ", Tone.ACCENT), (what, Tone.DIM)))]


def stopped_since(scene: Scene, rows: Iterable[RankRow]) -> float | None:
    """Since when the first of these ranks stands still."""
    history = scene.timeline.head.history
    found = [
        stopped
        for row in rows
        if (lanes := history.ranks.find(row.node.name, row.rank.process.pid)) is not None
        and (stopped := lanes.stopped(scene.now)) is not None
    ]
    return min(found, default=None)
