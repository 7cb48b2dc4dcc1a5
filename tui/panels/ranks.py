"""Panel 2: what a person asks of every rank first, then its process, then the kernel's words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence

from collectors.samples.gpus import GpuSample
from collectors.samples.inside import InsidePulse
from collectors.samples.ranks import RankPulse
from hangtop.diagnosis.phrasing import ranks_on
from hangtop.session.state.job_state import GpuState, StepState
from tui.looks.format import SILENT, UNKNOWN, age, number, percent, ranks_word, size
from tui.looks.theme import Colour
from tui.measure import cpu_percent, helpers_percent, memory_percent, pulse_of, row_of, source_is_stale, state_of
from tui.ordering.filter import Value
from tui.ordering.rows import RankRow
from tui.panels.base import Fact, Place
from tui.panels.facts import rank_brief, rank_facts
from tui.panels.table_panel import TablePanel
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
    "ended": ("ended", Colour.WARN),
    SILENT: (f"◌ {SILENT}", Colour.WARN),
}
"""A process state's letter and its meaning; D and T do not go away by themselves."""


class RanksPanel(TablePanel[RankRow]):
    """The table of ranks."""

    NAME = "ranks"
    NOUN = "rank"
    EMPTY = (
        "no rank seen yet: a rank is a process with RANK and WORLD_SIZE (or Slurm's, Open MPI's) in its environment, "
        "or one with torch, JAX or NCCL mapped"
    )

    def __init__(self, model: ViewModel) -> None:
        super().__init__(model)
        self._waited = False

    def columns(self) -> Sequence[Column[RankRow]]:
        """Who, where, which step, what it does now and for whom it waits; then its process."""
        return rank_columns(self.model)

    def rows(self) -> Sequence[RankRow]:
        """All ranks. Columns that nobody fills any more once a wait is over are left out again."""
        self.table.empty = self.hint(self.EMPTY)
        if self._waited is not bool(self.model.waits):
            self._waited = bool(self.model.waits)
            self.table.view.forget()
        return self.model.ranks

    def node_of(self, row: RankRow) -> str:
        """Name of the row's node."""
        return row.node.name

    def key(self, row: RankRow) -> Hashable:
        """Rank and process."""
        return row.number, row.node.name, row.rank.process.pid

    def blamed(self) -> Hashable:
        """The first rank that the verdict names."""
        rows = self.model.suspects
        return self.key(rows[0]) if rows else None

    def is_stale(self, row: RankRow) -> bool:
        """Its node does not respond, or the source of ranks does not."""
        return row.rank.gone_at is not None or self.model.stale(row.node) or source_is_stale(row.node, "ranks")

    def totals(self) -> list[Piece]:
        """How many ranks, in which states."""
        count, narrow, session = self.model.count, bool(self.narrowed()), self.model.session
        alive, what = (count.ranks_alive, "alive") if session.live else (count.ranks, "told of")
        of = "" if count.world_size is None else f" of {count.world_size:,}"
        pieces: list[Piece] = []
        if not narrow:
            pieces.append((f" {alive:,}{of} {ranks_word(alive, count.world_size)} {what}", Colour.STRONG))
        rows = self.kept(self.model.ranks)
        heard = [row for row in rows if row.rank.gone_at is None and not self.model.stale(row.node)]
        own = [row for row in heard if narrow or not self.model.strange(row.node, row.rank.process.pid)]
        for letter, times in Counter(filter(None, (state_of(row.rank) for row in own))).most_common():
            word, colour = STATES.get(letter, (letter, Colour.TEXT))
            pieces.append((f"   {times:,} {word[2:]}", colour if colour is not Colour.OK else Colour.TEXT))
        told = [(sum(row.number < 0 and row.rank.gone_at is None for row in rows), "without a number")]
        if not narrow:
            told += [
                (count.ranks_unheard, "on nodes that do not respond"),
                (len(self.model.rows.unrelated), "not of this job"),
                (count.ranks - count.ranks_alive - count.ranks_unheard, "ended"),
            ]
        return [*pieces, *((f"   {times:,} {what}", Colour.WARN) for times, what in told if times > 0)]

    def enter(self) -> Place | None:
        """Into the rank's log."""
        row = self.table.current
        if row is None:
            return None
        return Place("logs", f"rank={row.number}" if row.number >= 0 else f"node={row.node.name}")

    def select(self, key: Hashable) -> None:
        """Stand on a rank: by its whole key, or by its number alone."""
        if isinstance(key, int):
            key = next((self.key(row) for row in self.rows() if row.number == key), None)
        super().select(key)

    def chosen_ranks(self) -> set[int]:
        """Marked ranks, or the one under the cursor."""
        return {row.number for row in self.table.chosen()}

    def facts(self, row: RankRow) -> tuple[str, list[Fact]]:
        """All that is known of the process."""
        return ranks_on([row.number], [row.node.name]), rank_facts(row, self.model)

    def brief(self, row: RankRow) -> list[Fact]:
        """Stack, last lines, GPU and port."""
        return rank_brief(row, self.model)


def rank_columns(model: ViewModel) -> Sequence[Column[RankRow]]:
    """Columns over one model; values of GPUs are those of the first GPU that the process is on."""

    def gpu_value(get: Callable[[GpuState], Value]) -> Callable[[RankRow], Value]:
        return lambda row: None if (gpu := model.gpu_of(row)) is None else get(gpu)

    def sample(get: Callable[[GpuSample], Value]) -> Callable[[RankRow], Value]:
        return gpu_value(lambda gpu: None if (found := row_of(gpu)) is None else get(found))

    def who(row: RankRow) -> Piece:
        """Number; of a process without one its pid behind a question mark."""
        text, colour = (str(row.number), Colour.STRONG) if row.number >= 0 else (f"?{_pid(row)}", Colour.WARN)
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
        text, blamed = doing(row), row.number in model.waiting.blamed
        return (UNKNOWN, Colour.DIM) if text is None else (str(text), Colour.BAD if blamed else Colour.TEXT)

    def state(row: RankRow) -> Value:
        """What a rank did when its node was last heard is no state of it."""
        if row.rank.gone_at is not None:
            return "ended"
        return SILENT if model.stale(row.node) else state_of(row.rank)

    def state_piece(row: RankRow) -> Piece:
        word = state(row)
        return (UNKNOWN, Colour.DIM) if word is None else STATES.get(str(word), (str(word), Colour.TEXT))

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
        Column("state", "state", 9, state, state_piece,
               help="R on a CPU, S sleeps, D waits in the kernel and cannot be ended, T stopped, Z ended; "
                    f"{SILENT}: its node does not respond"),
        Column("cpu", "cpu %", 5, lambda row: cpu_percent(row.rank, row.node, model.interval), form=number,
               align="right", help="CPU of the process; 100 is one core"),
        Column("gpu", "gpu", 3, gpu_value(lambda gpu: gpu.index), align="right", help="index of its GPU on the node"),
        Column("gpu.util", "util", 4, sample(lambda s: s.utilization), form=percent, align="right",
               help="share of time in which some kernel ran on its GPU; one that only waits counts as well"),
        Column("gpu.mem", "mem", 4, gpu_value(memory_percent), form=percent, align="right",
               help="memory of its GPU in use"),
        Column("quiet", "log quiet", 9, lambda row: None if row.rank.log_at is None else model.now - row.rank.log_at,
               form=age, align="right", help="since its logs last grew"),
        Column("wchan", "kernel wait", 12, _pulse(lambda pulse: None if pulse.wchan in {"", "0"} else pulse.wchan),
               most=28, help="kernel function that the main thread sleeps in"),
        Column("rss", "rss", 6, _pulse(lambda pulse: pulse.rss), form=size, align="right", help="memory in RAM"),
        Column("helpers", "workers %", 9, lambda row: helpers_percent(row.rank, row.node, model.interval), form=number,
               align="right", help="CPU of data workers and other helpers together; 100 is one core"),
        Column("local", "local rank", 10, lambda row: row.rank.process.local_rank, align="right",
               help="number among the ranks of its node"),
        Column("pid", "pid", 8, _pid, align="right"),
        Column("up", "up", 7, lambda row: model.now - row.rank.process.started, form=age, align="right",
               help="since the process was started"),
        Column("cmd", "command", 12, lambda row: row.rank.process.command, most=200, colour=Colour.DIM),
    )  # fmt: skip


def _pid(row: RankRow) -> int:
    return row.rank.process.pid


def _log_of(row: RankRow) -> StepState | None:
    """The log that tells of its steps."""
    return next((log for log in row.node.steps.values() if log.count.pid == _pid(row) and log.told), None)


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


def _pulse(get: Callable[[RankPulse], Value]) -> Callable[[RankRow], Value]:
    return lambda row: None if (pulse := pulse_of(row.rank)) is None or row.rank.gone_at is not None else get(pulse)
