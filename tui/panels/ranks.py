"""Panel 2: every rank's process, what it does with its CPU and its GPU, and when it last said something."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from itertools import pairwise

from collectors.samples.gpus import GpuSample
from collectors.samples.ranks import RankPulse
from hangtop.diagnosis.job import Look
from hangtop.session.state import GpuState, NodeState, RankState
from tui.filter import Value
from tui.format import UNKNOWN, age, number, percent, size, spark
from tui.measure import (
    cpu_percent,
    cpu_seconds,
    growth,
    helpers_percent,
    history,
    memory_percent,
    pulse_of,
    row_of,
    source_is_stale,
)
from tui.panels.base import Fact, Place
from tui.panels.facts import rank_facts
from tui.panels.table_panel import TablePanel
from tui.recent import Recent
from tui.rolling import Rolling
from tui.scene import RankRow, Scene
from tui.theme import Tone
from tui.widgets.lines import Piece
from tui.widgets.table import Column

STATES = {
    "R": ("R run", Tone.OK),
    "S": ("S sleep", Tone.TEXT),
    "D": ("D disk!", Tone.BAD),
    "T": ("T stopped", Tone.BAD),
    "t": ("t traced", Tone.WARN),
    "Z": ("Z zombie", Tone.BAD),
    "X": ("X dead", Tone.BAD),
    "I": ("I idle", Tone.DIM),
}
"""A process state's letter and its meaning; D and T do not go away by themselves."""


_TREND = 12
Figure = Callable[[RankState, NodeState, float, Sequence[Look[RankPulse]]], float | None]
"""Of a rank on a node, ticks so many seconds apart, its last looks being these."""
Show = Callable[[RankRow], Piece]


class RanksPanel(TablePanel[RankRow]):
    """The table of ranks."""

    NAME = "ranks"
    FROZEN = 2
    EMPTY = "no rank seen yet: a rank is a process with RANK and WORLD_SIZE (or Slurm's, Open MPI's) in its environment"

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._states = Rolling(_states)

    def columns(self) -> Sequence[Column[RankRow]]:
        """Who, where, what state, how busy, what on the GPU, when last heard."""
        return rank_columns(self.scene)

    def rows(self) -> Sequence[RankRow]:
        """All ranks."""
        return self.scene.ranks

    def key(self, row: RankRow) -> Hashable:
        """Rank and process."""
        return row.number, row.node.name, row.rank.process.pid

    def is_stale(self, row: RankRow) -> bool:
        """Its node is silent, or the source of ranks is."""
        return row.rank.gone_at is not None or self.scene.stale(row.node) or source_is_stale(row.node, "ranks")

    def totals(self) -> list[Piece]:
        """How many ranks, in which states."""
        count = self.scene.count
        of = "" if count.world_size is None else f" of {count.world_size}"
        pieces: list[Piece] = [(f" {count.ranks_alive}{of} ranks alive", Tone.STRONG)]
        states: Counter[str] = Counter()
        for letters, nodes in Counter(self._states.turn(self.scene.nodes)).items():
            for letter in letters:
                states[letter] += nodes
        for letter, times in states.most_common():
            word, tone = STATES.get(letter, (letter, Tone.TEXT))
            pieces += [("   ", Tone.DIM), (f"{times} {word[2:]}", tone if tone is not Tone.OK else Tone.TEXT)]
        gone = count.ranks - count.ranks_alive
        if gone:
            pieces += [("   ", Tone.DIM), (f"{gone} ended", Tone.WARN)]
        if self.table.marked:
            pieces += [("   ", Tone.DIM), (f"◆ {len(self.table.marked)} marked", Tone.ACCENT)]
        return pieces

    def enter(self) -> Place | None:
        """Into the rank's log."""
        row = self.table.current
        return None if row is None else Place("logs", f"rank={row.number}")

    def select(self, key: Hashable) -> None:
        """Stand on a rank: by its whole key, or by its number alone."""
        if isinstance(key, int):
            key = next((self.key(row) for row in self.rows() if row.number == key), None)
        super().select(key)

    def node(self) -> str | None:
        """Node of the rank."""
        row = self.table.current
        return None if row is None else row.node.name

    def chosen_ranks(self) -> set[int]:
        """Marked ranks, or the one under the cursor."""
        return {row.number for row in self.table.chosen()}

    def details(self) -> tuple[str, list[Fact]] | None:
        """All that is known of the process."""
        row = self.table.current
        return None if row is None else (f"rank {row.number} on {row.node.name}", rank_facts(row, self.scene))


def _states(node: NodeState) -> str:
    """Letters of a node's ranks, in order: most nodes have the same."""
    pulses = [rank.looks.newest for rank in node.ranks.values() if rank.gone_at is None]
    return "".join(sorted([pulse.state for pulse in pulses if pulse is not None]))


def state_piece(row: RankRow) -> Piece:
    """State as letter and word."""
    if row.rank.gone_at is not None:
        return "ended", Tone.WARN
    pulse = pulse_of(row.rank)
    return (UNKNOWN, Tone.DIM) if pulse is None else STATES.get(pulse.state, (pulse.state, Tone.TEXT))


def rank_columns(scene: Scene) -> Sequence[Column[RankRow]]:
    """Columns over one scene; values of GPUs are those of the first GPU that the process is on."""
    recent: Recent[RankPulse] = Recent(_TREND + 3)

    def gpu_value(get: Callable[[GpuState], Value]) -> Callable[[RankRow], Value]:
        def value(row: RankRow) -> Value:
            gpu = scene.gpu_of(row)
            return None if gpu is None else get(gpu)

        return value

    def sample(get: Callable[[GpuSample], Value]) -> Callable[[RankRow], Value]:
        return gpu_value(lambda gpu: None if (found := row_of(gpu)) is None else get(found))

    def followed(row: RankRow) -> Sequence[Look[RankPulse]]:
        return recent.of((row.node.name, row.rank.process.pid), row.rank.looks, scene.interval)

    def moving(figure: Figure, form: Callable[[float | None], str]) -> tuple[Callable[[RankRow], Value], Show]:
        """Value and cell of what two looks tell together."""

        def value(row: RankRow) -> Value:
            looks = recent.last((row.node.name, row.rank.process.pid), row.rank.looks)
            return figure(row.rank, row.node, scene.interval, looks)

        def show(row: RankRow) -> Piece:
            found = figure(row.rank, row.node, scene.interval, followed(row))
            return (UNKNOWN, Tone.DIM) if found is None else (form(found), Tone.TEXT)

        return value, show

    def quiet(row: RankRow) -> Value:
        return None if row.rank.log_at is None else max(0.0, scene.now - row.rank.log_at)

    def trend(row: RankRow) -> Piece:
        if row.rank.gone_at is not None:
            return "", Tone.DIM
        end = row.node.seen_at or scene.now
        seconds = history(followed(row), cpu_seconds, end, scene.interval, _TREND + 1)
        shares = [None if a is None or b is None else (b - a) / scene.interval * 100.0 for a, b in pairwise(seconds)]
        return spark(shares, 100.0, _TREND), Tone.GRAPH

    cpu, cpu_piece = moving(cpu_percent, number)
    helpers, helpers_piece = moving(helpers_percent, number)
    switches, switches_piece = moving(_switches, number)
    reading, reading_piece = moving(_reading, size)

    return (
        Column("rank", "rank", 5, lambda row: row.number, align="right", tone=Tone.STRONG),
        Column("node", "node", 12, lambda row: row.node.name, grow=1, tone=Tone.INFO),
        Column("state", "state", 9, _letter, state_piece),
        Column("cpu", "cpu%", 5, cpu, cpu_piece, align="right", help="of one core"),
        Column("trend", "last 12 s", _TREND, cpu, trend, help="CPU, full is one core"),
        Column("gpu", "gpu", 3, gpu_value(lambda gpu: gpu.index), align="right"),
        Column("gpu.util", "util", 4, sample(lambda s: s.utilization), form=percent, align="right", also=("util",)),
        Column("gpu.mem", "gmem", 4, gpu_value(memory_percent), form=percent, align="right", also=("mem",)),
        Column("wchan", "waits in (kernel)", 18, _wchan, grow=1),
        Column("quiet", "log", 6, quiet, form=age, align="right", help="since its logs last grew"),
        Column("rss", "rss", 6, _pulse(lambda pulse: pulse.rss), form=size, align="right"),
        Column("helpers", "hlp%", 5, helpers, helpers_piece, align="right", help="CPU of data workers and helpers"),
        Column("workers", "hlp", 3, lambda row: len(row.rank.helpers), align="right"),
        Column("switches", "ctx/s", 6, switches, switches_piece, align="right", help="voluntary context switches"),
        Column("read", "read/s", 7, reading, reading_piece, align="right"),
        Column("threads", "thr", 4, _pulse(lambda pulse: pulse.threads), align="right"),
        Column("local", "loc", 3, lambda row: row.rank.process.local_rank, align="right"),
        Column("pid", "pid", 8, lambda row: row.rank.process.pid, align="right"),
        Column("user", "user", 8, lambda row: row.rank.process.user),
        Column("launcher", "by", 8, lambda row: row.rank.process.launcher),
        Column("up", "up", 7, lambda row: scene.now - row.rank.process.started, form=age, align="right"),
        Column("cmd", "command", 24, lambda row: row.rank.process.command, grow=3, tone=Tone.DIM, also=("command",)),
    )


def _switches(rank: RankState, node: NodeState, interval: float, looks: Sequence[Look[RankPulse]]) -> float | None:
    del rank
    return growth(looks, lambda pulse: pulse.voluntary_switches, node.seen_at, interval)


def _reading(rank: RankState, node: NodeState, interval: float, looks: Sequence[Look[RankPulse]]) -> float | None:
    del rank
    return growth(looks, lambda pulse: float(pulse.read_bytes or 0), node.seen_at, interval)


def _pulse(get: Callable[..., Value]) -> Callable[[RankRow], Value]:
    return lambda row: None if (pulse := pulse_of(row.rank)) is None or row.rank.gone_at is not None else get(pulse)


def _letter(row: RankRow) -> Value:
    if row.rank.gone_at is not None:
        return "ended"
    pulse = pulse_of(row.rank)
    return None if pulse is None else pulse.state


def _wchan(row: RankRow) -> Value:
    pulse = pulse_of(row.rank)
    return pulse.wchan if pulse is not None and row.rank.gone_at is None and pulse.wchan not in {"", "0"} else None
