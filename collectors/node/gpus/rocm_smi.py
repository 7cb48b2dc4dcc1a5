"""AMD's GPUs by rocm-smi, where neither their driver's files tell their use nor amd-smi is there (ROCm 4 to 6).

``rocm-smi --json``: an object for each card (``card0`` …) of texts, ``"GPU use (%)": "3"``; names changed with releases
(``Average Graphics Package Power (W)`` became ``Current Socket Graphics Package Power (W)`` on some GPUs). Which GPU a
card is tells its ``PCI Bus``. Its list of processes, ``"PID4711": "python3, 2, 1024, 0, 0"``, is of all GPUs together.
"""

from __future__ import annotations

import json
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple

from collectors.samples.gpus import GpuSample

METRIC = ("--showbus", "--showuse", "--showmeminfo", "vram", "--showtemp", "--showpower", "--json")
_BUS = ("PCI Bus",)
_USE = ("GPU use (%)",)
_MEMORY_USE = ("GPU Memory Read/Write Activity (%)", "GPU memory use (%)")
_USED = ("VRAM Total Used Memory (B)", "VRAM Used Memory (B)")
_HOT = ("Temperature (Sensor junction) (C)", "Temperature (Sensor edge) (C)")
_MEMORY_HOT = ("Temperature (Sensor memory) (C)",)
_POWER = (
    "Current Socket Graphics Package Power (W)", "Average Graphics Package Power (W)",
    "Average Socket Graphics Package Power (W)",
)  # fmt: skip


def rows(said: str, buses: Mapping[str, int]) -> List[GpuSample]:
    """A row of each card that is one of ours; ``buses``: number of a GPU by its PCI address."""
    found = {_number(bus): gpu for bus, gpu in buses.items()}
    made = []
    for card in _cards(said):
        gpu = found.get(_number(_text(card, _BUS)))
        if gpu is not None:
            made.append(_sample(gpu, card))
    return sorted(made)


def _cards(said: str) -> Iterator[Dict[str, Any]]:
    """Objects of cards in the output; it may begin with warnings."""
    start = said.find("{")
    try:
        known = json.loads(said[start:]) if start >= 0 else {}
    except (ValueError, RecursionError):
        return
    for name, card in known.items() if isinstance(known, dict) else ():
        if name.startswith("card") and isinstance(card, dict):
            yield card


def _sample(gpu: int, card: Dict[str, Any]) -> GpuSample:
    return GpuSample(
        gpu=gpu, pstate="", temperature=_whole(card, _HOT), memory_temperature=_whole(card, _MEMORY_HOT),
        utilization=_whole(card, _USE), memory_utilization=_whole(card, _MEMORY_USE), memory_used=_whole(card, _USED),
        power=_figure(card, _POWER), sm_clock=None, event_reasons=None, pcie_gen=None, pcie_width=None,
        ecc_uncorrected=None, sram_threshold_exceeded=None, remapped_correctable=None, remapped_uncorrectable=None,
        remap_pending=None, remap_failure=None, recovery_action="",
    )  # fmt: skip


def _text(card: Dict[str, Any], names: Tuple[str, ...]) -> str:
    return next((card[name].strip() for name in names if isinstance(card.get(name), str)), "")


def _figure(card: Dict[str, Any], names: Tuple[str, ...]) -> Optional[float]:
    """The first of these that is a number; ``N/A`` and the like are none."""
    for name in names:
        try:
            value = float(str(card.get(name, "")).strip()[:24])
        except ValueError:
            continue
        if 0 <= value < 1e15:
            return value
    return None


def _whole(card: Dict[str, Any], names: Tuple[str, ...]) -> Optional[int]:
    value = _figure(card, names)
    return None if value is None else int(value)


def _number(bus: str) -> str:
    """An address as sysfs and rocm-smi both write it: ``0000:C3:00.0`` and ``0000:c3:00.0``."""
    return bus.strip().lower()[-12:]
