"""Rows of nvidia-smi, and its lines that are none."""

import pytest

from collectors.node.gpus.nvidia_smi import APP_FIELDS, GpuRoster, build_app, build_row, choose, split
from collectors.samples.gpus import GpuFacts, GpuFault, GpuSample

KEYS = list(choose())
H200 = {
    "index": "0", "bus_id": "00000000:83:00.0", "uuid": "GPU-1", "driver": "590.48.01", "pstate": "P0",
    "temperature": "52", "memory_temperature": "40", "utilization": "100", "memory_utilization": "7",
    "memory_used": "32362", "memory_total": "143771", "power": "626.26", "power_limit": "700.00", "sm_clock": "1980",
    "sm_clock_max": "1980", "event_reasons": "0x0000000000000004", "pcie_gen": "5", "pcie_gen_max": "5",
    "pcie_width": "16", "pcie_width_max": "16", "ecc_uncorrected": "0", "sram_threshold_exceeded": "No",
    "remapped_uncorrectable": "0", "remap_pending": "No", "remap_failure": "No",
    "recovery_action": "None", "mig": "Disabled", "name": "NVIDIA H200",
}  # fmt: skip


def line(**cells: str) -> str:
    return ", ".join({**H200, **cells}[key] for key in KEYS)


def row(**cells: str) -> tuple[GpuFacts, GpuSample]:
    found = build_row(split(line(**cells), KEYS))
    assert found is not None
    return found


def test_a_row_without_units() -> None:
    facts, sample = row(name="NVIDIA X, special edition")
    assert (facts.gpu, facts.bus_id, facts.memory_total) == (0, "00000000:83:00.0", 143771 << 20)
    assert facts.name == "NVIDIA X, special edition"
    assert (sample.utilization, sample.power, sample.memory_used, sample.event_reasons) == (100, 626.26, 32362 << 20, 4)
    assert (sample.remap_pending, sample.recovery_action, sample.odd) == (False, "", None)


@pytest.mark.parametrize("absent", ["[N/A]", "[Not Supported]", "[Insufficient Permissions]", ""])
def test_what_is_not_available_is_unknown_and_nothing_odd(absent: str) -> None:
    sample = row(utilization=absent, memory_temperature=absent, event_reasons=absent, remap_pending=absent)[1]
    assert (sample.utilization, sample.memory_temperature, sample.event_reasons, sample.remap_pending) == (None,) * 4
    assert sample.odd is None


def test_an_odd_value_is_shown_as_what_it_is() -> None:
    odd = {"utilization": "[Unknown Error]", "power": "ERR!", "remap_failure": "[GPU requires reset]"}
    sample = row(**odd)[1]
    assert (sample.utilization, sample.power, sample.remap_failure, sample.odd) == (None, None, None, odd)


@pytest.mark.parametrize("text", ["", "No devices were found", "1, 2, 3", line(index="[Unknown Error]")])
def test_another_line_is_no_row(text: str) -> None:
    assert build_row(split(text, KEYS)) is None


def test_a_row_of_a_lost_gpu_says_so() -> None:
    lost = row(utilization="[GPU is lost]", power="[GPU is lost]")
    assert list(GpuRoster().row(*lost)) == [GpuFault(0, "00000000:83:00.0", "[GPU is lost]")]
    odd = row(utilization="[Unknown Error]")
    assert list(GpuRoster().row(*odd)) == [*odd]


@pytest.mark.parametrize(
    ("text", "gpu", "bus_id"),
    [
        ("Unable to determine the device handle for GPU3: 0000:5F:00.0: Unknown Error", 3, "0000:5f:00.0"),
        ("Unable to determine the device handle for GPU 0000:25:00.0: GPU is lost.  Reboot", None, "0000:25:00.0"),
        # index and address run together: that 0000 is no index
        ("Unable to determine the device handle for GPU0000:07:00.0: Unknown Error", None, "0000:07:00.0"),
        ("Unable to determine the device handle for GPU2: 00000000:07:00.0: Not Found", 2, "00000000:07:00.0"),
    ],
)
def test_a_line_names_its_gpu(text: str, gpu: int | None, bus_id: str) -> None:
    assert list(GpuRoster().line(text)) == [GpuFault(gpu, bus_id, text)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("00000000:83:00.0, 10291, 2566, python, train.py", (10291, 2566 << 20, "python, train.py")),
        ("00000000:83:00.0, 10291, [N/A], [Not Found]", (10291, None, "")),
        ("", None),
        ("No running processes found", None),
        ("a, b, c, d", None),
        ("00000000:83:00.0, -, 1, x", None),
    ],
)
def test_a_process_on_a_gpu(text: str, found: tuple[int, int | None, str] | None) -> None:
    app = build_app(split(text, APP_FIELDS))
    assert (app and (app.pid, app.memory, app.name)) == found
