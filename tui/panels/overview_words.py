"""The first lines of the overview: how the chosen figure lies, or since when a job stands still and what to press."""

from __future__ import annotations

from statistics import fmean
from typing import NamedTuple

from hangtop.diagnosis.phrasing import ranks_text
from hangtop.session.motion.steps import JobSteps
from hangtop.session.state.job_state import NodeState
from tui.figures.count import alive_on
from tui.figures.measure import row_of, state_of
from tui.figures.rolling import Rolling
from tui.looks.format import age, clock, plural
from tui.looks.text import cells
from tui.looks.theme import Tone
from tui.ordering.rows import RankRow
from tui.scene import Scene
from tui.waits.levels import letter_of
from tui.widgets.heat import GpuMetric, Metric, WaitMetric
from tui.widgets.heatmap import HeatMap
from tui.widgets.lines import Piece

SLOW_CONNECT = 2.0
"""Seconds after which a node that still connects is named."""
NEXT = "   next "
KEYS = (("7", "proof"), ("8", "stacks"), ("g", "graph"), ("x", "report"))
AFTER_CRASH = (("7", "proof"), ("5", "logs"), ("x", "report"))


class Figures(NamedTuple):
    """A node's part in the line of totals."""

    low: float | None
    high: float | None
    share: float | None
    """Mean of what is most, 0 to 1."""
    missing: int
    """GPUs that gave no figures."""
    on_cpu: int
    """Ranks in state R that are not without a CPU for most of the time."""


class LastStep(NamedTuple):
    """A training step that a log told of; the latest comes last."""

    at: float
    number: int


class Totals:
    """Adds up the figures of all nodes, a part of them a tick."""

    def __init__(self, scene: Scene, heatmap: HeatMap) -> None:
        self.scene, self.heatmap = scene, heatmap
        self.figures = Rolling(self._figures_of)
        self.steps = Rolling(self._step_of)

    def forget(self) -> None:
        """Look at all nodes anew: another moment is shown."""
        self.figures.forget()
        self.steps.forget()

    def pieces(self) -> list[Piece]:
        """The chosen figure from least to most, what is missing, and who is on a CPU."""
        metric, found = self.heatmap.metric, self.figures.turn(self.scene.nodes)
        if isinstance(metric, WaitMetric):
            pieces = self._legend()
        elif not (self.scene.ranks or self.scene.gpus):
            pieces = [(" no GPU and no rank is known", Tone.STRONG)]
        else:
            whose = "GPU " if isinstance(metric, GpuMetric) else ""
            pieces = [(f" {whose}{metric.title}{'' if whose else ' of the ranks'}", Tone.STRONG)]
            pieces.append((f" {metric.unit}  ", Tone.DIM))
        lows = [figures.low for figures in found if figures.low is not None]
        highs = [figures.high for figures in found if figures.high is not None]
        if lows and highs and not isinstance(metric, WaitMetric):
            least, most = metric.text(min(lows)), metric.text(max(highs))
            pieces += [("from " if least != most else "all ", Tone.DIM), (least, Tone.TEXT)]
            pieces += [(" to ", Tone.DIM), (most, Tone.TEXT)] if least != most else []
        elif not isinstance(metric, WaitMetric) and (self.scene.ranks or self.scene.gpus):
            pieces.append(("not known", Tone.DIM))
        more: list[list[Piece]] = []
        missing = sum(figures.missing for figures in found)
        if missing:
            more.append([(f"   ▲ {plural(missing, 'GPU')} without figures", Tone.BAD)])
        if self.scene.ranks and self.scene.session.live:  # nobody knows who was on a CPU when files were written
            alive = self.scene.count.ranks_alive
            # nodes are looked at a part a tick: of one that has just fallen silent the last look may still be counted
            on_cpu = min(alive, sum(figures.on_cpu for figures in found))
            # a look sees state R for an instant: a rank that is not on a CPU then may well be at work on its GPU
            when = "then" if self.scene.timeline.told()[0] else "now"
            if alive:
                more.append([(f"   {on_cpu:,} of {plural(alive, 'rank')}", Tone.TEXT), (f" on CPU {when}", Tone.DIM)])
            elif all(row.rank.gone_at is not None for row in self.scene.ranks):
                more.append([("   no rank runs any more", Tone.TEXT)])
        more.append(self._connecting())
        # each is told whole or not at all
        room = self.heatmap.app.size.width - 1 - _width(pieces)
        for part in more:
            if _width(part) <= room:
                room -= _width(part)
                pieces += part
        return pieces

    def _legend(self) -> list[Piece]:
        """Letters of the boxes, and who is in them."""
        pieces: list[Piece] = [(" who waits  ", Tone.STRONG)]
        for place, box in enumerate(self.scene.waits[:4]):
            who = ranks_text(box.ranks) if len(box.ranks) < 4 else plural(len(box.ranks), "rank")
            pieces += [(f"{letter_of(place)} ", Tone.BAD if box.blamed else Tone.STRONG), (f"{who}  ", Tone.TEXT)]
        more = len(self.scene.waits) - 4
        return [*pieces, *([(f"and {more} more  ", Tone.DIM)] if more > 0 else [])]

    def story(self) -> list[Piece]:
        """Of a job that hangs, or in which ranks failed: since when, the last step, and the keys that lead on."""
        told: list[list[Piece]] = []
        crashed = not self.scene.waits
        since = self._failed_at() if crashed else self._since()
        if since is not None:
            when, stands = "failed" if crashed else "since", age(self.scene.now - since)
            told.append(
                [
                    (f"{when} {clock(since, millis=False)}", Tone.TEXT),
                    (f", {stands} ago" if crashed else f", {stands}", Tone.DIM),
                ]
            )
        steps = [step for step in self.steps.turn(self.scene.nodes) if step is not None]
        if steps:
            told.append([("last step ", Tone.DIM), (f"{max(steps).number}", Tone.TEXT)])
        waiting = [len(box.ranks) for box in self.scene.waits if box.waits_for]
        if waiting:
            verb = "waits" if sum(waiting) == 1 else "wait"
            told.append([(f"{plural(sum(waiting), 'rank')} {verb}", Tone.TEXT)])
        if crashed:
            ended = sum(row.rank.gone_at is not None for row in self.scene.ranks)
            told.append([(f"{ended:,} of {plural(len(self.scene.ranks), 'rank')} ended", Tone.TEXT)])
        pieces: list[Piece] = []
        for part in told:
            pieces += [(" · " if pieces else " ", Tone.DIM), *part]
        room = self.heatmap.app.size.width - _width(pieces) - cells(NEXT)
        keys: list[Piece] = []
        for key, what in AFTER_CRASH if crashed else KEYS:
            room -= cells(f" {key} {what}")
            if room < 0:
                break
            keys += [(f" {key} ", Tone.ACCENT), (what, Tone.DIM)]
        return [*pieces, *([(NEXT, Tone.DIM), *keys] if keys else [])]

    def _since(self) -> float | None:
        """Since when those who are blamed stand still; where that is not known, or none is blamed, the first of all."""
        history = self.scene.timeline.head.history
        for rows in (self.scene.blamed, self.scene.ranks[:MANY]):
            found = [
                stopped
                for row in rows
                if (lanes := history.ranks.find(row.node.name, row.rank.process.pid)) is not None
                and (stopped := lanes.stopped(self.scene.now)) is not None
            ]
            if found:
                return min(found)
        return None

    def _failed_at(self) -> float | None:
        """When the first whom the verdict names failed: as was told of it, else when it was seen to be gone."""
        verdict = self.scene.session.verdict
        if verdict is None or not verdict.findings:
            return None
        told = [line.at for line in verdict.findings[0].evidence if line.at is not None]
        gone = [row.rank.gone_at for row in self.scene.suspects if row.rank.gone_at is not None]
        return min(told or gone, default=None)

    def _step_of(self, node: NodeState) -> LastStep | None:
        """The last step that a node's logs tell of."""
        steps = JobSteps(self.scene.now)
        steps.take(node, ())
        return None if steps.last is None else LastStep(steps.numbered_at, steps.last)

    def _figures_of(self, node: NodeState) -> Figures:
        metric = self.heatmap.metric_of(node)
        strange, silent = self.scene.strange, self.scene.stale(node)
        other = silent or type(metric) is not type(self.heatmap.metric)
        values = [] if other else values_of(self.scene, node, metric)
        states = [state_of(rank) for pid, rank in alive_on(node).items() if not strange(node, pid)]
        return Figures(
            min(values, default=None),
            max(values, default=None),
            _share(node, metric, values),
            [row_of(gpu) for gpu in node.gpus.values()].count(None),
            0 if silent else states.count("R"),
        )

    def _connecting(self) -> list[Piece]:
        """N of M, and who is slow."""
        count = self.scene.count
        if not count.nodes_asking or self.scene.session.verdict is None:
            return []  # until there is a verdict that is what the first line says
        slow = [
            node
            for node in self.scene.nodes
            if node.link == "connecting" and node.seen_at is None and self.scene.now - node.since > SLOW_CONNECT
        ]
        up = f"{count.nodes_up:,} of {count.nodes:,} nodes"
        pieces: list[Piece] = [("   ○ connecting ", Tone.DIM), (up, Tone.TEXT)]
        if slow:
            worst = min(slow, key=lambda node: node.since)
            more = f" and {len(slow) - 1} more" if len(slow) > 1 else ""
            whom = f"{self.scene.names.of(worst.name)}{more}"
            pieces.append((f", waiting {age(self.scene.now - worst.since)} for {whom}", Tone.WARN))
        return pieces


MANY = 256
"""Ranks up to which all are asked in one tick."""


def values_of(scene: Scene, node: NodeState, metric: Metric) -> list[float]:
    """Values of a figure on one node."""
    if isinstance(metric, WaitMetric):
        return []
    if isinstance(metric, GpuMetric):
        return [value for gpu in node.gpus.values() if (value := metric.value(gpu)) is not None]
    rows = [RankRow(node, rank) for rank in node.ranks.values() if rank.gone_at is None]
    return [value for row in rows if (value := metric.value(row, scene.interval)) is not None]


def _width(pieces: list[Piece]) -> int:
    return sum(cells(text) for text, _ in pieces)


def _share(node: NodeState, metric: Metric, values: list[float]) -> float | None:
    if not values or isinstance(metric, WaitMetric):
        return None
    full = metric.full(next(iter(node.gpus.values()))) if isinstance(metric, GpuMetric) else metric.full
    return min(1.0, max(0.0, fmean(values) / full))
