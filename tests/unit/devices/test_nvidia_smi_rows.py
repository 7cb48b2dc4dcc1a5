"""Rows of nvidia-smi, and its lines that are none."""

import pytest

from collectors.node.gpus.nvidia_smi import SmiRow, app_row, choose, device_line, gpu_row, lost_row

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


def row(**cells: str) -> SmiRow:
    found = gpu_row(KEYS, line(**cells))
    assert found is not None
    return found


def test_a_row_without_units() -> None:
    facts, sample = row(name="NVIDIA X, special edition")
    assert (facts.gpu, facts.bus_id, facts.memory_total) == (0, "00000000:83:00.0", 143771 << 20)
    assert facts.name == "NVIDIA X, special edition"
    assert (sample.utilization, sample.power, sample.memory_used, sample.event_reasons) == (100, 626.26, 32362 << 20, 4)
    assert (sample.remap_pending, sample.recovery_action, sample.odd) == (False, "None", None)


@pytest.mark.parametrize("absent", ["[N/A]", "N/A", "[Not Supported]", "[Insufficient Permissions]", ""])
def test_what_is_not_available_is_unknown_and_nothing_odd(absent: str) -> None:
    sample = row(utilization=absent, memory_temperature=absent, event_reasons=absent, remap_pending=absent).sample
    assert (sample.utilization, sample.memory_temperature, sample.event_reasons, sample.remap_pending) == (None,) * 4
    assert sample.odd is None


def test_an_odd_value_is_shown_as_what_it_is() -> None:
    sample = row(utilization="[Unknown Error]", power="ERR!", remap_failure="[GPU requires reset]").sample
    assert (sample.utilization, sample.power, sample.remap_failure) == (None, None, None)
    assert sample.odd == {"utilization": "[Unknown Error]", "power": "ERR!", "remap_failure": "[GPU requires reset]"}


@pytest.mark.parametrize(
    "text", ["", "No devices were found", "1, 2, 3", line(index="[Unknown Error]"), line(index="99999")]
)
def test_another_line_is_no_row(text: str) -> None:
    assert gpu_row(KEYS, text) is None


def test_a_row_of_a_lost_gpu_says_so() -> None:
    fault = lost_row(row(utilization="[GPU is lost]", power="[GPU is lost]"))
    assert fault == (0, "00000000:83:00.0", "[GPU is lost]")
    assert lost_row(row(utilization="[Unknown Error]")) is None


@pytest.mark.parametrize(
    ("text", "gpu", "bus_id"),
    [
        ("Unable to determine the device handle for GPU3: 0000:5F:00.0: Unknown Error", 3, "0000:5f:00.0"),
        ("Unable to determine the device handle for GPU 0000:25:00.0: GPU is lost.  Reboot", None, "0000:25:00.0"),
        # index and address run together: that 0000 is no index
        ("Unable to determine the device handle for GPU0000:07:00.0: Unknown Error", None, "0000:07:00.0"),
        ("Unable to determine the device handle for GPU2: 00000000:07:00.0: Not Found", 2, "00000000:07:00.0"),
        ("Failed to initialize NVML: Unknown Error", None, ""),
    ],
)
def test_a_line_names_its_gpu(text: str, gpu: int | None, bus_id: str) -> None:
    assert device_line(text)[:2] == (gpu, bus_id)


@pytest.mark.parametrize(
    ("text", "memory", "name"),
    [
        ("00000000:83:00.0, 10291, 2566, python, train.py", 2566 << 20, "python, train.py"),
        ("00000000:83:00.0, 10291, [N/A], [Not Found]", None, ""),
    ],
)
def test_a_process_on_a_gpu(text: str, memory: int | None, name: str) -> None:
    assert app_row(text) == ("00000000:83:00.0", 10291, memory, None, name)


@pytest.mark.parametrize("text", ["", "No running processes found", "a, b, c, d", "00000000:83:00.0, -, 1, x"])
def test_another_line_is_no_process(text: str) -> None:
    assert app_row(text) is None
