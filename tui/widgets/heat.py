"""What the cells of the heat map say: a figure of a GPU, or of a rank on a node without GPUs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from hangtop.session.state.job_state import GpuState, NodeState, RankState
from tui.figures.measure import cpu_percent, helpers_percent, memory_percent, pulse_of, row_of
from tui.looks.format import UNKNOWN
from tui.looks.theme import Tone
from tui.ordering.rows import RankRow
from tui.scene import Scene
from tui.waits.levels import letter_of


class Cell(NamedTuple):
    """One cell: what is written in it, and how hot it is (0 to 1; None for no colour)."""

    rank: str
    value: str
    heat: float | None
    tone: Tone
    number: int | None
    """Global rank, for drilling down."""
    blamed: bool = False
    """By the verdict, for the others' waiting."""


@dataclass(frozen=True, slots=True)
class GpuMetric:
    """A figure of a GPU; ``full`` is the value of the hottest colour."""

    field: str
    """Of a row; what nvidia-smi says instead of a number is kept under this name."""
    title: str
    short: str
    unit: str
    digits: int
    value: Callable[[GpuState], float | None]
    full: Callable[[GpuState], float]

    def text(self, value: float) -> str:
        """In a cell."""
        return f"{value:.0f}"


@dataclass(frozen=True, slots=True)
class RankMetric:
    """A figure of a rank's process; ``full`` is the value of the hottest colour."""

    title: str
    short: str
    unit: str
    digits: int
    value: Callable[[RankRow, float], float | None]
    """Of the row and the interval."""
    full: float

    def text(self, value: float) -> str:
        """In a cell; less than ten gigabytes with a tenth, or small ranks had none."""
        return f"{value:.1f}" if self.unit == "G" and value < 9.95 else f"{min(value, 999):.0f}"


@dataclass(frozen=True, slots=True)
class WaitMetric:
    """In which box of those who wait for one another a rank is: what matters of a job that hangs."""

    title: str = "who waits"
    short: str = "waits"
    unit: str = ""
    digits: int = 2


def _of_row(name: str) -> Callable[[GpuState], float | None]:
    def get(gpu: GpuState) -> float | None:
        row = row_of(gpu)
        return None if row is None else getattr(row, name)

    return get


def _gigabytes(row: RankRow, interval: float) -> float | None:
    del interval
    pulse = pulse_of(row.rank)
    return None if pulse is None else pulse.rss / 2**30


GPU_METRICS = (
    GpuMetric("utilization", "utilisation", "util", "%", 3, _of_row("utilization"), lambda _: 100.0),
    GpuMetric("memory_used", "memory", "mem", "%", 3, memory_percent, lambda _: 100.0),
    GpuMetric("power", "power", "power", "W", 4, _of_row("power"),
              lambda gpu: (gpu.facts.power_limit if gpu.facts else None) or 700.0),
    GpuMetric("temperature", "temperature", "temp", "°C", 3, _of_row("temperature"), lambda _: 90.0),
    GpuMetric("sm_clock", "SM clock", "clock", "MHz", 4, _of_row("sm_clock"),
              lambda gpu: float((gpu.facts.sm_clock_max if gpu.facts else None) or 2000)),
)  # fmt: skip
RANK_METRICS = (
    RankMetric("CPU", "cpu", "%", 3, lambda row, interval: cpu_percent(row.rank, row.node, interval), 100.0),
    RankMetric("CPU of helpers", "help", "%", 3,
               lambda row, interval: helpers_percent(row.rank, row.node, interval), 100.0),
    RankMetric("memory", "rss", "G", 3, _gigabytes, 64.0),
)  # fmt: skip

WAITS = WaitMetric()

Metric = GpuMetric | RankMetric | WaitMetric


def metrics_of(node: NodeState, *, hangs: bool = False) -> tuple[Metric, ...]:
    """The figures that the node's cells can show; of a job that hangs first who waits."""
    own = GPU_METRICS if node.gpus else RANK_METRICS
    return (WAITS, *own) if hangs else own


def cells_of(scene: Scene, node: NodeState, metric: Metric) -> list[Cell]:
    """All cells of a node: its GPUs, or its ranks where it has none."""
    if isinstance(metric, WaitMetric):
        return [_wait_cell(scene, number) for number in _numbers_of(scene, node)]
    if isinstance(metric, GpuMetric):
        return [_gpu_cell(gpu, owners, metric) for gpu, owners in scene.owners(node)]
    rows = sorted((RankRow(node, rank) for rank in node.ranks.values()), key=lambda row: row.number)
    return [_rank_cell(row, metric, scene.interval) for row in rows if row.rank.gone_at is None]


def _numbers_of(scene: Scene, node: NodeState) -> list[int | None]:
    """Ranks in the order of the node's cells; None for a GPU without one."""
    if node.gpus:
        return [owners[0].process.rank if owners else None for _, owners in scene.owners(node)]
    return [*sorted(rank.process.rank for rank in node.ranks.values() if rank.gone_at is None)]


def _wait_cell(scene: Scene, number: int | None) -> Cell:
    """The letter of a rank's box; a dot where the picture of waits does not hold it."""
    place = None if number is None else scene.waiting.place_of.get(number)
    name = "·" if number is None else str(number) if number >= 0 else "?"
    if place is None:
        return Cell(name, UNKNOWN if number is None else "·", None, Tone.DIM, number)
    blamed = scene.waits[place].blamed
    return Cell(name, letter_of(place), None, Tone.BAD if blamed else Tone.TEXT, number, blamed)


def _rank_cell(row: RankRow, metric: RankMetric, interval: float) -> Cell:
    value = metric.value(row, interval)
    text = UNKNOWN if value is None else metric.text(value)
    heat = None if value is None else min(1.0, max(0.0, value / metric.full))
    return Cell(str(row.number) if row.number >= 0 else "?", text, heat, Tone.TEXT, row.number)


def _gpu_cell(gpu: GpuState, owners: list[RankState], metric: GpuMetric) -> Cell:
    number = owners[0].process.rank if owners else None
    name = "·" if number is None else str(number) if number >= 0 else "?"
    if gpu.fault is not None:
        return Cell(name, "ERR", None, Tone.BAD, number)
    value = metric.value(gpu)
    if value is None:
        row = row_of(gpu)
        odd = row is not None and metric.field in (row.odd or ())
        return Cell(name, "ERR" if odd else UNKNOWN, None, Tone.BAD if odd else Tone.DIM, number)
    heat = min(1.0, max(0.0, value / metric.full(gpu)))
    return Cell(name, metric.text(value), heat, Tone.BAD if len(owners) > 1 else Tone.TEXT, number)
