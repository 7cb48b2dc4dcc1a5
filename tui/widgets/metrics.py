"""Cells of the heat map: a figure of a GPU, a figure of a rank on a node without GPUs, or a rank's wait box."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

from hangtop.diagnosis.node import Gpu, Node
from tui.looks.format import UNKNOWN
from tui.looks.signs import link_sign
from tui.looks.theme import Colour
from tui.measure import cpu_percent, memory_percent, row_of
from tui.ordering.rows import RankRow, alive_on
from tui.view_model import ViewModel, letter_of


class Cell(NamedTuple):
    """One cell: its rank, text and heat (0 to 1; None for no heat)."""

    number: int | None
    """Global rank."""
    value: str
    heat: float | None
    colour: Colour = Colour.TEXT
    blamed: bool = False

    @property
    def rank(self) -> str:
        """Text of the rank number; ``·`` without a rank, ``?`` without a number."""
        return "·" if self.number is None else str(self.number) if self.number >= 0 else "?"

    @property
    def sign(self) -> str:
        """One character: tenths of the maximum, a letter, or ``!`` for an error."""
        if self.heat is not None:
            return str(min(9, int(self.heat * 10)))
        return "!" if self.value == "ERR" else self.value[:1]


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure; ``full`` is the value of the highest heat."""

    title: str
    unit: str
    digits: int
    of_gpu: Callable[[Gpu], float | None] | None = None
    of_rank: Callable[[RankRow, float], float | None] | None = None
    """Takes the row and the interval."""
    full: Callable[[Gpu | None], float] = lambda _: 100.0
    field: str = ""
    """Field of the sample; its ``odd`` lists fields for which nvidia-smi gave no number."""

    def text(self, value: float) -> str:
        """Text of a value."""
        return f"{min(value, 9999):.0f}"

    def values(self, model: ViewModel, node: Node) -> list[float]:
        """The values on one node."""
        found: list[float | None] = []
        if self.of_gpu is not None:
            found = [self.of_gpu(gpu) for gpu in node.gpus.values()]
        elif self.of_rank is not None:
            found = [self.of_rank(row, model.state.interval) for row in ranks_on(node)]
        return [value for value in found if value is not None]


def _row(name: str) -> Callable[[Gpu], float | None]:
    value = attrgetter(name)
    return lambda gpu: value(gpu.samples[-1].value) if gpu.samples and gpu.fault is None else None


def _limit(gpu: Gpu | None) -> float:
    return (gpu.facts.power_limit if gpu and gpu.facts else None) or 700.0


WAITS = Metric("waits", "", 2)
OF_GPUS = (
    Metric("utilisation", "%", 3, _row("utilization"), field="utilization"),
    Metric("memory", "%", 3, memory_percent, field="memory_used"),
    Metric("power", "W", 4, _row("power"), full=_limit, field="power"),
    Metric("temperature", "°C", 3, _row("temperature"), full=lambda _: 90.0, field="temperature"),
)
OF_RANKS = (Metric("CPU", "%", 3, of_rank=lambda row, interval: cpu_percent(row.rank, row.node, interval)),)
"""To add a figure, add its entry."""


def metrics_of(model: ViewModel, node: Node) -> tuple[Metric, ...]:
    """The figures for a node's cells; the waits first, if the verdict has any."""
    figures = OF_GPUS if node.gpus else OF_RANKS
    return (WAITS, *figures) if model.waits else figures


def ranks_on(node: Node) -> list[RankRow]:
    """Living ranks of a node, by number."""
    return sorted((RankRow(node, rank) for rank in alive_on(node).values()), key=lambda row: row.number)


def cells_of(model: ViewModel, node: Node, metric: Metric) -> list[Cell]:
    """All cells of a node: its GPUs, else its ranks."""
    if metric.of_rank is not None:
        return [_figure(row.number, metric, metric.of_rank(row, model.state.interval), None) for row in ranks_on(node)]
    owned = [(gpu, owners[0].process.rank if owners else None, len(owners)) for gpu, owners in model.owners(node)]
    if metric.of_gpu is not None:
        return [_gpu_cell(gpu, number, owners, metric) for gpu, number, owners in owned]
    numbers = [number for _, number, _ in owned] if node.gpus else [row.number for row in ranks_on(node)]
    return [_wait_cell(model, number) for number in numbers]


def cell_of(model: ViewModel, node: Node, metric: Metric) -> Cell:
    """One cell for a whole node: the letter of the box that tells most, its mean, or how it is connected."""
    if metric is WAITS:
        ranks = [rank.process.rank for rank in node.ranks.values() if rank.process.rank in model.waiting.place_of]
        boxes, place_of = model.waits, model.waiting.place_of
        if ranks:
            key = min(ranks, key=lambda rank: (not boxes[place_of[rank]].blamed, len(boxes[place_of[rank]].ranks)))
            return _wait_cell(model, key)
    if not node.readable or model.stale(node):
        glyph, colour = link_sign(node.link)
        return Cell(None, glyph, None, colour)
    values = metric.values(model, node)
    mean = sum(values) / len(values) if values else None
    return _figure(None, metric, mean, next(iter(node.gpus.values()), None))


def _wait_cell(model: ViewModel, number: int | None) -> Cell:
    """The letter of a rank's box; a dot where the verdict's boxes do not hold it."""
    place = None if number is None else model.waiting.place_of.get(number)
    if place is None:
        return Cell(number, UNKNOWN if number is None else "·", None, Colour.DIM)
    blamed = model.waits[place].blamed
    return Cell(number, letter_of(place), None, Colour.BAD if blamed else Colour.TEXT, blamed)


def _gpu_cell(gpu: Gpu, number: int | None, owners: int, metric: Metric) -> Cell:
    row = row_of(gpu)
    if gpu.fault is not None or (row is not None and metric.field in (row.odd or ())):
        return Cell(number, "ERR", None, Colour.BAD)
    assert metric.of_gpu is not None
    cell = _figure(number, metric, metric.of_gpu(gpu), gpu)
    return cell._replace(colour=Colour.BAD) if owners > 1 else cell


def _figure(number: int | None, metric: Metric, value: float | None, gpu: Gpu | None) -> Cell:
    if value is None:
        return Cell(number, UNKNOWN, None, Colour.DIM)
    return Cell(number, metric.text(value), min(1.0, max(0.0, value / metric.full(gpu))))
