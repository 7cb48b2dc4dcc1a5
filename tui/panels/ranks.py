"""Panel 2: every rank: its step and wait first, then GPU, process and kernel figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from collectors.samples.gpus import GpuSample
from collectors.samples.ranks import RankPulse
from hangtop.diagnosis.node import Gpu
from hangtop.diagnosis.phrasing import ranks_on
from tui.looks.format import SILENT, UNKNOWN, age, number, percent, ranks_word, size
from tui.looks.theme import Colour
from tui.measure import (
    cpu_percent,
    inside_of,
    last_step,
    memory_percent,
    row_of,
    seconds_a_step,
    source_is_stale,
    state_of,
)
from tui.ordering.filter import Value
from tui.ordering.rows import RankRow
from tui.panels.base import Place
from tui.panels.facts import rank_facts
from tui.panels.table_panel import TableSpec, counts
from tui.view_model import ViewModel, letter_of
from tui.widgets.columns import Column
from tui.widgets.lines import Piece

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
    "ended": ("ended", Colour.WARN),
    SILENT: (f"◌ {SILENT}", Colour.WARN),
}
"""Text and colour by the letter of a process state; D and T do not end by themselves."""
EMPTY = (
    "no rank seen yet: a rank is a process with RANK and WORLD_SIZE (or those of Slurm, Open MPI) in its environment, "
    "or with torch, JAX or NCCL mapped"
)


def _totals(model: ViewModel, rows: Sequence[RankRow]) -> list[Piece]:
    """Numbers of ranks, by state."""
    count = model.count
    alive, what = (count.ranks_alive, "alive") if model.session.live else (count.ranks, "known")
    of = "" if count.world_size is None else f" of {count.world_size:,}"
    heard = [row for row in rows if row.rank.gone_at is None and not model.stale(row.node)]
    of_job = [row for row in heard if not model.strange(row.node, row.rank.process.pid)]
    states = Counter(filter(None, (state_of(row.rank) for row in of_job))).most_common()
    signs = [(times, *STATES.get(letter, (letter, Colour.TEXT))) for letter, times in states]
    return [
        (f" {alive:,}{of} {ranks_word(alive, count.world_size)} {what}", Colour.STRONG),
        *counts([(times, f"{times:,} {word[2:]}", colour) for times, word, colour in signs]),
        *counts(
            [
                (times, f"{times:,} {what}", Colour.WARN)
                for times, what in (
                    (sum(row.number < 0 and row.rank.gone_at is None for row in rows), "without a number"),
                    (count.ranks_unheard, "on nodes that do not respond"),
                    (len(model.rows.unrelated), "not of this job"),
                    (max(0, count.ranks - count.ranks_alive - count.ranks_unheard), "ended"),
                )
            ]
        ),
    ]


def _log(model: ViewModel, row: RankRow) -> Place:
    """The rank's log."""
    del model
    return Place("logs", f"rank={row.number}" if row.number >= 0 else f"node={row.node.name}")


def rank_columns(model: ViewModel) -> Sequence[Column[RankRow]]:
    """Columns of ranks; GPU values are those of the first GPU that the rank uses."""

    def gpu_value(get: Callable[[Gpu], Value]) -> Callable[[RankRow], Value]:
        return lambda row: None if (gpu := model.gpu_of(row)) is None else get(gpu)

    def sample(get: Callable[[GpuSample], Value]) -> Callable[[RankRow], Value]:
        return gpu_value(lambda gpu: None if (found := row_of(gpu)) is None else get(found))

    def who(row: RankRow) -> Piece:
        """The rank number, or ``?pid`` for a process without one."""
        text, colour = (str(row.number), Colour.STRONG) if row.number >= 0 else (f"?{_pid(row)}", Colour.WARN)
        return text, Colour.DIM if model.strange(row.node, row.rank.process.pid) else colour

    def doing(row: RankRow) -> Value:
        place = model.waiting.place_of.get(row.number)
        if place is not None:
            return f"{letter_of(place)} {model.waits[place].doing}"
        inside = inside_of(row)
        if inside is not None and inside.phase:
            since = "" if inside.phase_at is None else f" for {age(max(0.0, model.now - inside.phase_at))}"
            return f"{inside.phase}{since}"
        return model.leaf_of(row)

    def doing_piece(row: RankRow) -> Piece:
        text, blamed = doing(row), row.number in model.waiting.blamed
        return (UNKNOWN, Colour.DIM) if text is None else (str(text), Colour.BAD if blamed else Colour.TEXT)

    def state(row: RankRow) -> Value:
        """The present state; ``silent`` if the node does not respond."""
        if row.rank.gone_at is not None:
            return "ended"
        return SILENT if model.stale(row.node) else state_of(row.rank)

    def state_piece(row: RankRow) -> Piece:
        word = state(row)
        return (UNKNOWN, Colour.DIM) if word is None else STATES.get(str(word), (str(word), Colour.TEXT))

    return (
        Column("rank", "rank", 5, lambda row: row.number, who, align="right", colour=Colour.STRONG,
               help="rank number; dim if the process belongs to another job"),
        Column("node", "node", 5, lambda row: row.node.name, most=24, colour=Colour.INFO),
        Column("step", "step", 7, last_step, form=number, align="right",
               help="last finished training step, from its log or hangtop.inside"),
        Column("doing", "now", 16, doing, doing_piece, most=42,
               help="the letter and wait of its group of ranks; else its phase, or the place in the code of its "
                    "last stack"),
        Column("waits", "waits for", 10, lambda row: model.waiting.waits_for(row.number) or None, most=18,
               colour=Colour.WARN, help="the ranks that it waits for, with the letter of their group"),
        Column("still", "still", 7, lambda row: _still(model, row), form=age, align="right", colour=Colour.WARN,
               help="time without motion; the others often wait for the rank that stopped first"),
        Column("gpu", "gpu", 3, gpu_value(lambda gpu: gpu.index), align="right", help="index of its GPU on the node"),
        Column("gpu.util", "util", 4, sample(lambda s: s.utilization), form=percent, align="right",
               help="share of time in which a kernel ran on its GPU, even one that only waits"),
        Column("gpu.mem", "mem", 4, gpu_value(memory_percent), form=percent, align="right",
               help="memory of its GPU in use"),
        Column("state", "state", 9, state, state_piece,
               help="R on a CPU, S sleeps, D waits in the kernel and cannot be killed, T stopped, Z zombie; "
                    f"{SILENT}: its node does not respond"),
        Column("pace", "s/step", 6, seconds_a_step, form=lambda value: f"{value:.3g}", align="right",
               help="seconds per step over the last steps in its log"),
        Column("cpu", "cpu %", 5, lambda row: cpu_percent(row.rank, row.node, model.state.interval), form=number,
               align="right", help="CPU of the process; 100 is one core"),
        Column("quiet", "log quiet", 9, lambda row: None if row.rank.log_at is None else model.now - row.rank.log_at,
               form=age, align="right", help="time since its logs last grew"),
        Column("wchan", "kernel wait", 12, _pulse(lambda pulse: None if pulse.wchan in {"", "0"} else pulse.wchan),
               most=28, help="kernel function in which the main thread sleeps"),
        Column("rss", "rss", 6, _pulse(lambda pulse: pulse.rss), form=size, align="right", help="memory in RAM"),
        Column("pid", "pid", 8, _pid, align="right"),
        Column("cmd", "command", 12, lambda row: row.rank.process.command, most=200, colour=Colour.DIM),
    )  # fmt: skip


def _still(model: ViewModel, row: RankRow) -> float | None:
    stopped = model.timeline.head.progress.stopped.get((row.node.name, _pid(row)), model.now)
    return model.now - stopped if stopped < model.now and row.rank.gone_at is None else None


def _pid(row: RankRow) -> int:
    return row.rank.process.pid


def _pulse(get: Callable[[RankPulse], Value]) -> Callable[[RankRow], Value]:
    return lambda row: None if (pulse := row.rank.pulses.newest) is None or row.rank.gone_at is not None else get(pulse)


RANKS = TableSpec(
    name="ranks",
    noun="rank",
    columns=rank_columns,
    rows=lambda model: model.ranks,
    key=lambda row: (row.number, row.node.name, _pid(row)),
    node=lambda row: row.node.name,
    ranks=lambda _, row: {row.number},
    stale=lambda model, row: (
        row.rank.gone_at is not None or model.stale(row.node) or source_is_stale(row.node, "ranks")
    ),
    facts=lambda model, row: (ranks_on([row.number], [row.node.name]), rank_facts(row, model)),
    enter=_log,
    blamed=lambda model: next(((row.number, row.node.name, _pid(row)) for row in model.suspects), None),
    totals=_totals,
    empty=lambda model: model.hint(EMPTY),
)
"""Panel 2."""
