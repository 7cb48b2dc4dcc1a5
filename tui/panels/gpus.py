"""Panel 3: every GPU, its ranks, and what throttles it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from collectors.samples.gpus import GpuSample
from hangtop.diagnosis.phrasing import count
from tui.looks.format import UNKNOWN, number, percent, watts
from tui.looks.theme import Colour
from tui.measure import memory_percent, row_of, source_is_stale, throttling
from tui.ordering.filter import Value
from tui.ordering.rows import GpuRow
from tui.panels.base import Place
from tui.panels.facts import gpu_facts
from tui.panels.table_panel import TableSpec, counts
from tui.view_model import ViewModel
from tui.widgets.columns import Column
from tui.widgets.lines import Piece


def _why_none(model: ViewModel) -> str:
    said = [f"{node.name}: {node.gpu_fault.text}" for node in model.nodes if node.gpu_fault is not None]
    sources = [(node.name, node.sources.get("gpus")) for node in model.nodes]
    said += [f"{name}: {it.why or it.state}" for name, it in sources if it is not None and it.state != "ok"]
    more = f"   (and {len(said) - 1} more nodes)" if len(said) > 1 else ""
    return f"no GPU · {said[0]}{more}" if said else model.hint("no GPU seen yet")


def _blamed(model: ViewModel) -> Hashable:
    """The GPU that the verdict names, else the GPU of the first suspect."""
    for node, index in model.accused_parts("gpus"):
        if index.isdecimal() and int(index) in node.gpus:
            return node.name, int(index)
    rows = model.suspects
    gpu = model.gpu_of(rows[0]) if rows else None
    return None if gpu is None else (rows[0].node.name, gpu.index)


def _totals(model: ViewModel, rows: Sequence[GpuRow]) -> list[Piece]:
    """Number, mean utilisation, power and faults of the GPUs."""
    heard = [row for row in rows if not model.stale(row.node)]
    seen = [found for row in heard if (found := row_of(row.gpu)) is not None]
    shares = [found.utilization for found in seen if found.utilization is not None]
    power = sum(found.power for found in seen if found.power is not None)
    idle, silent = sum(share < 5 for share in shares), len(rows) - len(heard)
    held = sum(throttling(found.event_reasons)[1] for found in seen)
    faults = sum(row.gpu.fault is not None for row in heard)
    mean = percent(sum(shares) / len(shares)) if shares else ""
    return [
        (f" {count(len(rows), 'GPU')}", Colour.STRONG),
        *counts(
            [
                (len(shares), f"mean utilisation {mean}", Colour.TEXT),
                (len(shares), f"under 5%: {idle:,}", Colour.WARN if 0 < idle < len(shares) else Colour.TEXT),
                (round(power), f"power {watts(power)}", Colour.TEXT),
                (silent, f"◌ {silent:,} on nodes that do not respond", Colour.WARN),
                (held, f"▲ {count(held, 'GPU')} held back", Colour.BAD),
                (faults, f"▲ {count(faults, 'GPU')} without figures", Colour.BAD),
            ]
        ),
    ]


def _owner(model: ViewModel, row: GpuRow) -> Place:
    """The first rank that uses the GPU, in the panel of ranks."""
    owners = model.ranks_of(row.node, row.gpu)
    return Place("ranks", f"node={row.node.name}", owners[0].process.rank if owners else None)


def gpu_columns(model: ViewModel) -> Sequence[Column[GpuRow]]:
    """Columns of GPUs."""

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

    return (
        Column("node", "node", 12, lambda row: row.node.name, most=32, colour=Colour.INFO),
        Column("gpu", "gpu", 3, lambda row: row.gpu.index, align="right", colour=Colour.STRONG),
        Column("rank", "rank", 6, ranks, ranks_piece, align="right"),
        Column("gpu.util", "util", 4, sample(lambda s: s.utilization), form=percent, align="right",
               help="share of time in which a kernel ran, even one that only waits"),
        Column("gpu.mem", "mem", 4, lambda row: memory_percent(row.gpu), form=percent, align="right",
               help="memory in use"),
        Column("power", "power", 5, sample(lambda s: s.power), form=number, align="right", help="W"),
        Column("temp", "temp", 4, sample(lambda s: s.temperature), align="right", help="°C"),
        Column("clock", "clock", 5, sample(lambda s: s.sm_clock), align="right", help="MHz of the SMs"),
        Column("held", "held back by", 13, lambda row: _reasons(row)[0], _reasons, most=28,
               help="reason for reduced clocks, or for missing figures"),
        Column("ecc", "ecc", 4, sample(lambda s: s.ecc_uncorrected), align="right",
               help="uncorrected memory errors since the driver started"),
        Column("pcie", "pcie", 6, sample(lambda s: s.pcie_width), _pcie, help="generation × width"),
    )  # fmt: skip


def _reasons(row: GpuRow) -> Piece:
    if row.gpu.fault is not None:
        return f"▲ {row.gpu.fault.text}", Colour.BAD
    found = row_of(row.gpu)
    if found is None or found.event_reasons is None:
        return UNKNOWN, Colour.DIM
    words, bad = throttling(found.event_reasons)
    return (f"▲ {words}", Colour.BAD) if bad else (words, Colour.DIM)


def _pcie(row: GpuRow) -> Piece:
    found, facts = row_of(row.gpu), row.gpu.facts
    if found is None or found.pcie_width is None:
        return UNKNOWN, Colour.DIM
    narrow = facts is not None and facts.pcie_width_max is not None and found.pcie_width < facts.pcie_width_max
    return f"{number(found.pcie_gen)}×{found.pcie_width}{'▲' if narrow else ''}", Colour.BAD if narrow else Colour.TEXT


GPUS = TableSpec(
    name="gpus",
    noun="GPU",
    columns=gpu_columns,
    rows=lambda model: model.gpus,
    key=lambda row: (row.node.name, row.gpu.index),
    node=lambda row: row.node.name,
    ranks=lambda model, row: {rank.process.rank for rank in model.ranks_of(row.node, row.gpu)},
    stale=lambda model, row: model.stale(row.node) or source_is_stale(row.node, "gpus"),
    facts=lambda model, row: (f"GPU {row.gpu.index} of {row.node.name}", gpu_facts(row.node, row.gpu, model)),
    enter=_owner,
    blamed=_blamed,
    totals=_totals,
    empty=_why_none,
)
"""Panel 3."""
