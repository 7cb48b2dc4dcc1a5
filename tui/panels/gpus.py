"""Panel 3: every GPU, who is on it, and what holds it back."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from collectors.samples.gpus import GpuSample
from tui.looks.format import UNKNOWN, number, percent, plural, spark, watts
from tui.looks.theme import Colour
from tui.measure import history, memory_percent, row_of, source_is_stale, throttling
from tui.ordering.filter import Value
from tui.ordering.rows import GpuRow
from tui.panels.base import Fact, Place
from tui.panels.facts import gpu_facts
from tui.panels.table_panel import TablePanel
from tui.view_model import ViewModel
from tui.widgets.lines import Piece
from tui.widgets.table import Column

_TREND = 16


class GpusPanel(TablePanel[GpuRow]):
    """The table of GPUs."""

    NAME = "gpus"
    NOUN = "GPU"

    def columns(self) -> Sequence[Column[GpuRow]]:
        """Where, whose, how busy, how hot, what is wrong."""
        return gpu_columns(self.model)

    def rows(self) -> Sequence[GpuRow]:
        """All GPUs; without any the table says why."""
        if not self.model.gpus:
            self.table.empty = self._why_none()
        return self.model.gpus

    def _why_none(self) -> str:
        said = [f"{node.name}: {node.gpu_fault.text}" for node in self.model.nodes if node.gpu_fault is not None]
        sources = [(node.name, node.sources.get("gpus")) for node in self.model.nodes]
        said += [f"{name}: {one.why or one.state}" for name, one in sources if one is not None and one.state != "ok"]
        more = f"   (and {len(said) - 1} more nodes)" if len(said) > 1 else ""
        return f"no GPU · {said[0]}{more}" if said else self.hint("no GPU seen yet")

    def node_of(self, row: GpuRow) -> str:
        """Name of the row's node."""
        return row.node.name

    def key(self, row: GpuRow) -> Hashable:
        """Node and index."""
        return row.node.name, row.gpu.index

    def blamed(self) -> Hashable:
        """The GPU that the verdict names, else that of the first rank that it names."""
        for node, index in self.model.accused_parts("gpus"):
            if index.isdecimal() and int(index) in node.gpus:
                return node.name, int(index)
        rows = self.model.suspects
        gpu = self.model.gpu_of(rows[0]) if rows else None
        return None if gpu is None else (rows[0].node.name, gpu.index)

    def is_stale(self, row: GpuRow) -> bool:
        """Its node does not respond, or nvidia-smi does not."""
        return self.model.stale(row.node) or source_is_stale(row.node, "gpus")

    def totals(self) -> list[Piece]:
        """How many, how busy, how much power, what is wrong."""
        rows = self.kept(self.model.gpus)
        heard = [row for row in rows if not self.model.stale(row.node)]
        seen = [found for row in heard if (found := row_of(row.gpu)) is not None]
        shares = [found.utilization for found in seen if found.utilization is not None]
        pieces: list[Piece] = [] if self.narrowed() else [(f" {plural(len(rows), 'GPU')}", Colour.STRONG)]
        if shares:
            idle = sum(share < 5 for share in shares)
            pieces.append((f"   mean utilisation {percent(sum(shares) / len(shares))}", Colour.TEXT))
            pieces.append((f"   under 5%: {idle:,}", Colour.WARN if 0 < idle < len(shares) else Colour.TEXT))
        if power := sum(found.power for found in seen if found.power is not None):
            pieces.append((f"   power {watts(power)}", Colour.TEXT))
        silent = len(rows) - len(heard)
        held = sum(throttling(found.event_reasons)[1] for found in seen)
        faults = sum(row.gpu.fault is not None for row in heard)
        late = len({row.node.name for row in heard if source_is_stale(row.node, "gpus")})
        for there, text, colour in (
            (silent, f"◌ {silent:,} on nodes that do not respond", Colour.WARN),
            (held, f"▲ {plural(held, 'GPU')} held back", Colour.BAD),
            (faults, f"▲ {plural(faults, 'GPU')} without figures", Colour.BAD),
            (late, f"▲ {plural(late, 'node')} without an answer of nvidia-smi", Colour.BAD),
        ):
            pieces += [(f"   {text}", colour)] if there else []
        return pieces

    def enter(self) -> Place | None:
        """To the rank that is on it."""
        row = self.table.current
        if row is None:
            return None
        owners = self.model.ranks_of(row.node, row.gpu)
        return Place("ranks", f"node={row.node.name}", owners[0].process.rank if owners else None)

    def chosen_ranks(self) -> set[int]:
        """Ranks on the marked GPUs."""
        return {rank.process.rank for row in self.table.chosen() for rank in self.model.ranks_of(row.node, row.gpu)}

    def facts(self, row: GpuRow) -> tuple[str, list[Fact]]:
        """All that is known of the GPU."""
        return f"GPU {row.gpu.index} of {row.node.name}", gpu_facts(row.node, row.gpu, self.model)


def gpu_columns(model: ViewModel) -> Sequence[Column[GpuRow]]:
    """Columns over one job."""

    def sample(get: Callable[[GpuSample], Value]) -> Callable[[GpuRow], Value]:
        return lambda row: None if (found := row_of(row.gpu)) is None else get(found)

    def ranks(row: GpuRow) -> Value:
        owners = model.ranks_of(row.node, row.gpu)
        return owners[0].process.rank if owners else None

    def ranks_piece(row: GpuRow) -> Piece:
        owners = [rank.process.rank for rank in model.ranks_of(row.node, row.gpu)]
        if not owners:
            return ("other" if row.gpu.processes else "", Colour.WARN)
        text = ",".join(str(rank) if rank >= 0 else "?" for rank in owners)
        return text, Colour.STRONG if len(owners) == 1 else Colour.BAD

    def trend(row: GpuRow) -> Piece:
        if row.gpu.fault is not None:
            return row.gpu.fault.text, Colour.BAD
        end = row.node.seen_at or model.now
        values = history(row.gpu.looks, lambda s: s.utilization, end, model.interval, _TREND)
        return spark(values, 100.0, _TREND), Colour.GRAPH

    return (
        Column("node", "node", 12, lambda row: row.node.name, most=32, colour=Colour.INFO,
               brief=lambda row: model.names.of(row.node.name)),
        Column("gpu", "gpu", 3, lambda row: row.gpu.index, align="right", colour=Colour.STRONG),
        Column("rank", "rank", 6, ranks, ranks_piece, align="right"),
        Column("gpu.util", "util", 4, sample(lambda s: s.utilization), form=percent, align="right",
               help="share of time in which some kernel ran; one that only waits counts as well"),
        Column("trend", "last 16 s", _TREND, sample(lambda s: s.utilization), trend,
               help="utilisation of the last 16 s"),
        Column("gpu.mem", "mem", 4, lambda row: memory_percent(row.gpu), form=percent, align="right",
               help="memory in use"),
        Column("power", "power", 5, sample(lambda s: s.power), form=number, align="right", help="W"),
        Column("temp", "temp", 4, sample(lambda s: s.temperature), align="right", help="°C"),
        Column("clock", "clock", 5, sample(lambda s: s.sm_clock), align="right", help="MHz of the SMs"),
        Column("held", "held back by", 13, lambda row: _reasons(row)[0], _reasons, most=28,
               help="why its clocks are lower than they could be"),
        Column("odd", "odd values", 11, _odd, colour=Colour.BAD, most=30,
               help="what nvidia-smi says where a number should stand"),
        Column("ecc", "ecc", 4, sample(lambda s: s.ecc_uncorrected), align="right",
               help="uncorrected memory errors since the driver started"),
        Column("remap", "remap", 5, sample(_remap), align="right", help="rows waiting to be remapped, or failed"),
        Column("pcie", "pcie", 6, sample(lambda s: s.pcie_width), _pcie, help="generation × width"),
        Column("name", "name", 12, lambda row: row.gpu.facts.name if row.gpu.facts else None, most=40,
               colour=Colour.DIM),
    )  # fmt: skip


def _reasons(row: GpuRow) -> Piece:
    found = row_of(row.gpu)
    if found is None or found.event_reasons is None:
        return UNKNOWN, Colour.DIM
    words, bad = throttling(found.event_reasons)
    return (f"▲ {words}", Colour.BAD) if bad else (words, Colour.DIM)


def _odd(row: GpuRow) -> Value:
    if row.gpu.fault is not None:
        return row.gpu.fault.text
    found = row_of(row.gpu)
    return "" if found is None else ", ".join(f"{name} {text}" for name, text in (found.odd or {}).items())


def _remap(sample: GpuSample) -> Value:
    if sample.remap_failure:
        return "FAIL"
    return None if sample.remap_pending is None else "wait" if sample.remap_pending else "0"


def _pcie(row: GpuRow) -> Piece:
    found, facts = row_of(row.gpu), row.gpu.facts
    if found is None or found.pcie_width is None:
        return UNKNOWN, Colour.DIM
    narrow = facts is not None and facts.pcie_width_max is not None and found.pcie_width < facts.pcie_width_max
    return f"{number(found.pcie_gen)}×{found.pcie_width}{'▲' if narrow else ''}", Colour.BAD if narrow else Colour.TEXT
