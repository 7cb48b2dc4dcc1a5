"""Which columns to ask nvidia-smi for: names changed over the years, and one unknown name fails the whole query."""

from __future__ import annotations

import re
from typing import Dict, FrozenSet, List, NamedTuple, Optional, Sequence, Tuple

FIELDS: Tuple[Tuple[str, Tuple[str, ...]], ...] = (
    ("index", ("index",)),
    ("bus_id", ("pci.bus_id", "gpu_bus_id")),
    ("uuid", ("uuid", "gpu_uuid")),
    ("count", ("count",)),
    ("driver", ("driver_version",)),
    ("pstate", ("pstate",)),
    ("temperature", ("temperature.gpu",)),
    ("memory_temperature", ("temperature.memory",)),
    ("utilization", ("utilization.gpu",)),
    ("memory_utilization", ("utilization.memory",)),
    ("memory_used", ("memory.used",)),
    ("memory_total", ("memory.total",)),
    ("power", ("power.draw.instant", "power.draw")),  # power.draw is an average on Ampere and later
    ("power_limit", ("power.limit",)),
    ("sm_clock", ("clocks.current.sm", "clocks.sm")),
    ("sm_clock_max", ("clocks.max.sm",)),
    ("event_reasons", ("clocks_event_reasons.active", "clocks_throttle_reasons.active")),  # renamed with driver 535
    ("pcie_gen", ("pcie.link.gen.gpucurrent", "pcie.link.gen.current")),
    ("pcie_gen_max", ("pcie.link.gen.max",)),
    ("pcie_width", ("pcie.link.width.current",)),
    ("pcie_width_max", ("pcie.link.width.max",)),
    ("ecc_uncorrected", ("ecc.errors.uncorrected.volatile.total",)),
    ("sram_threshold_exceeded", ("ecc.errors.uncorrected.aggregate.sram.thresholdExceeded",)),
    ("remapped_correctable", ("remapped_rows.correctable",)),
    ("remapped_uncorrectable", ("remapped_rows.uncorrectable",)),
    ("remap_pending", ("remapped_rows.pending",)),
    ("remap_failure", ("remapped_rows.failure",)),
    ("recovery_action", ("gpu_recovery_action",)),
    ("mig", ("mig.mode.current",)),
    ("name", ("name", "gpu_name")),  # last: it alone may hold a comma
)
"""Our name of each column, and nvidia-smi's, newest first."""

NAMES: Dict[str, str] = {name: key for key, names in FIELDS for name in names}
"""nvidia-smi's name → ours."""

_PROPERTY = re.compile(r'"([\w.]+)"')
_REJECTED = re.compile(r'Field "([^"]*)" is not a valid field to query')


class Columns(NamedTuple):
    """What is asked for: ``keys`` are our names, ``fields`` nvidia-smi's, in the same order."""

    keys: Tuple[str, ...]
    fields: Tuple[str, ...]


def known_fields(help_text: str) -> FrozenSet[str]:
    """Fields that ``--help-query-gpu`` lists; empty when the text is no such list."""
    names: List[str] = []
    for line in help_text.splitlines():
        if line.startswith('"'):
            names += _PROPERTY.findall(line)
    return frozenset(names) if "index" in names else frozenset()


def choose(known: FrozenSet[str], rejected: Sequence[str] = ()) -> Columns:
    """Columns to ask for: of each the newest name that the driver knows and has not rejected.

    Without a list of what it knows (``known`` empty) the newest names are tried: each query that fails names one field
    for ``rejected``.
    """
    chosen: List[Tuple[str, str]] = []
    for key, names in FIELDS:
        fit = [name for name in names if name not in rejected and (not known or name in known)]
        if fit:
            chosen.append((key, fit[0]))
    return Columns(tuple(key for key, _ in chosen), tuple(name for _, name in chosen))


def rejected_field(text: str) -> Optional[str]:
    """The field that nvidia-smi says it does not know; None when the text says nothing of the kind."""
    found = _REJECTED.search(text)
    return found.group(1) if found else None
