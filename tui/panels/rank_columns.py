"""Columns of panel 2: what a person asks of a rank first, then its process, then the kernel's words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from collectors.samples.gpus import GpuSample
from collectors.samples.inside import InsidePulse
from collectors.samples.ranks import RankPulse
from hangtop.diagnosis.job import Look
from hangtop.session.state.job_state import GpuState, NodeState, RankState, StepState
from tui.looks.format import SILENT, UNKNOWN, age, number, percent, size, spark
from tui.looks.theme import Colour
from tui.measure import (
    cpu_percent,
    cpu_seconds,
    helpers_percent,
    history,
    memory_percent,
    pulse_of,
    row_of,
    state_of,
)
from tui.ordering.filter import Value
from tui.ordering.rows import RankRow
from tui.view_model import ViewModel
from tui.waits import letter_of
from tui.widgets.lines import Piece
from tui.widgets.table import Column

STATES = {
    "R": ("R on CPU", Colour.OK),
    "r": ("R no CPU", Colour.WARN),
    "S": ("S sleep", Colour.TEXT),
    "D": ("D kernel!", Colour.BAD),
    "T": ("T stopped", Colour.BAD),
    "t": ("t traced", Colour.WARN),
    "Z": ("Z zombie", Colour.BAD),
    "X": ("X dead", Colour.BAD),
    "I": ("I idle", Colour.DIM),
}
"""A process state's letter and its meaning; D and T do not go away by themselves."""
_NO_STATE = {"ended": ("ended", Colour.WARN), SILENT: (f"◌ {SILENT}", Colour.WARN)}
"""What stands there of a rank that has none, or whose state nobody knows."""

_TREND = 12
Figure = Callable[[RankState, NodeState, float, Sequence[Look[RankPulse]]], float | None]
"""Of a rank on a node, ticks so many seconds apart, its last looks being these."""


def rank_piece(row: RankRow) -> Piece:
    """Number; of a process without one its pid behind a question mark."""
    if row.number < 0:
        return f"?{row.rank.process.pid}", Colour.WARN
    return str(row.number), Colour.STRONG


def _state_column(model: ViewModel) -> Column[RankRow]:
    """State as letter and word; what a rank did when its node was last heard is no state of it."""

    def letter(row: RankRow) -> Value:
        if row.rank.gone_at is not None:
            return "ended"
        return SILENT if model.stale(row.node) else state_of(row.rank)

    def show(row: RankRow) -> Piece:
        word = letter(row)
        if word is None:
            return UNKNOWN, Colour.DIM
        return _NO_STATE.get(str(word)) or STATES.get(str(word), (str(word), Colour.TEXT))

    return Column("state", "state", 9, letter, show,
                  help="R on a CPU, S sleeps, D waits in the kernel and cannot be ended, T stopped, Z ended; "
                       f"{SILENT}: its node does not respond")  # fmt: skip


def rank_columns(model: ViewModel) -> Sequence[Column[RankRow]]:
    """Columns over one model; values of GPUs are those of the first GPU that the process is on."""

    def gpu_value(get: Callable[[GpuState], Value]) -> Callable[[RankRow], Value]:
        return lambda row: None if (gpu := model.gpu_of(row)) is None else get(gpu)

    def sample(get: Callable[[GpuSample], Value]) -> Callable[[RankRow], Value]:
        return gpu_value(lambda gpu: None if (found := row_of(gpu)) is None else get(found))

    def moving(figure: Figure) -> Callable[[RankRow], Value]:
        return lambda row: figure(row.rank, row.node, model.interval, row.rank.looks)

    def trend(row: RankRow) -> Piece:
        if row.rank.gone_at is not None:
            return "", Colour.DIM
        end = row.node.seen_at or model.now
        seconds = history(row.rank.looks, cpu_seconds, end, model.interval, _TREND + 1)
        shares = [None if a is None or b is None else (b - a) / model.interval * 100.0 for a, b in pairwise(seconds)]
        return spark(shares, 100.0, _TREND), Colour.GRAPH

    def who(row: RankRow) -> Piece:
        text, colour = rank_piece(row)
        return text, Colour.DIM if model.strange(row.node, row.rank.process.pid) else colour

    def doing(row: RankRow) -> Value:
        place = model.waiting.place_of.get(row.number)
        if place is not None:
            return f"{letter_of(place)} {model.waits[place].doing}"
        inside = _inside(row)
        if inside is not None and inside.phase:
            since = "" if inside.phase_at is None else f" for {age(max(0.0, model.now - inside.phase_at))}"
            return f"{inside.phase}{since}"
        return model.leaf_of(row)

    def doing_piece(row: RankRow) -> Piece:
        text, blamed = doing(row), model.waiting.blames(row.number)
        return (UNKNOWN, Colour.DIM) if text is None else (str(text), Colour.BAD if blamed else Colour.TEXT)

    return (
        Column("rank", "rank", 5, lambda row: row.number, who, align="right", colour=Colour.STRONG,
               help="number of the rank; dim where the process belongs to another job"),
        Column("node", "node", 5, lambda row: row.node.name, most=24, colour=Colour.INFO,
               brief=lambda row: model.names.of(row.node.name)),
        Column("step", "step", 7, _step, form=number, align="right",
               help="the last training step that it said is done: by its log, or by hangtop.inside"),
        Column("pace", "s/step", 6, _pace, form=lambda value: f"{value:.3g}", align="right",
               help="seconds a step, as its log told the last ones"),
        Column("doing", "now", 16, doing, doing_piece, most=44,
               help="where it is: behind the letter of its box in who waits for whom; else its phase, or the code of "
                    "the last look at its stack"),
        Column("waits", "waits for", 10, lambda row: model.waiting.waits_for(row.number) or None, most=18,
               colour=Colour.WARN, help="whom it waits for, by the letter of their box"),
        Column("phase", "phase", 8, lambda row: None if (told := _inside(row)) is None else told.phase or None,
               help="the part of the step that it is in, by its own word (hangtop.inside)"),
        _state_column(model),
        Column("cpu", "cpu %", 5, moving(cpu_percent), form=number, align="right",
               help="CPU of the process; 100 is one core"),
        Column("gpu", "gpu", 3, gpu_value(lambda gpu: gpu.index), align="right", help="index of its GPU on the node"),
        Column("gpu.util", "util", 4, sample(lambda s: s.utilization), form=percent, align="right",
               help="share of time in which some kernel ran on its GPU; one that only waits counts as well"),
        Column("gpu.mem", "mem", 4, gpu_value(memory_percent), form=percent, align="right",
               help="memory of its GPU in use"),
        Column("quiet", "log quiet", 9, lambda row: None if row.rank.log_at is None else model.now - row.rank.log_at,
               form=age, align="right", help="since its logs last grew"),
        Column("trend", "cpu last 12 s", 13, moving(cpu_percent), trend, help="CPU of the last 12 s; full is one core"),
        Column("wchan", "kernel wait", 12, _wchan, most=28,
               help="kernel function that the main thread sleeps in"),
        Column("rss", "rss", 6, _pulse(lambda pulse: pulse.rss), form=size, align="right", help="memory in RAM"),
        Column("helpers", "workers %", 9, moving(helpers_percent), form=number, align="right",
               help="CPU of data workers and other helpers together; 100 is one core"),
        Column("workers", "workers", 7, lambda row: len(row.rank.helpers), align="right",
               help="data workers and other helper processes"),
        Column("local", "local rank", 10, lambda row: row.rank.process.local_rank, align="right",
               help="number among the ranks of its node"),
        Column("pid", "pid", 8, lambda row: row.rank.process.pid, align="right"),
        Column("up", "up", 7, lambda row: model.now - row.rank.process.started, form=age, align="right",
               help="since the process was started"),
        Column("cmd", "command", 12, lambda row: row.rank.process.command, most=200, colour=Colour.DIM),
    )  # fmt: skip


def _log_of(row: RankRow) -> StepState | None:
    """The log that tells of its steps."""
    pid = row.rank.process.pid
    return next((log for log in row.node.steps.values() if log.count.pid == pid and log.told), None)


def _step(row: RankRow) -> Value:
    inside, log = _inside(row), _log_of(row)
    if inside is not None and inside.step is not None:
        return inside.step
    return None if log is None else log.told[-1][1]


def _pace(row: RankRow) -> Value:
    log = _log_of(row)
    if log is None or len(log.told) < 2:
        return None
    (began, first, _), (ended, last, _) = log.told[0], log.told[-1]
    return (ended - began) / (last - first) if last > first and ended > began else None


def _inside(row: RankRow) -> InsidePulse | None:
    inside = row.rank.inside
    return None if inside is None or row.rank.gone_at is not None else inside.pulse


def _pulse(get: Callable[..., Value]) -> Callable[[RankRow], Value]:
    return lambda row: None if (pulse := pulse_of(row.rank)) is None or row.rank.gone_at is not None else get(pulse)


def _wchan(row: RankRow) -> Value:
    pulse = pulse_of(row.rank)
    return pulse.wchan if pulse is not None and row.rank.gone_at is None and pulse.wchan not in {"", "0"} else None
