"""Rows of nvidia-smi, and its lines that are none."""

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from collectors.node.gpus.nvidia_smi_fields import choose
from collectors.node.gpus.nvidia_smi_rows import (
    Row,
    app_row,
    device_line,
    gpu_row,
    header,
    lost_row,
    saved_apps,
    saved_rows,
)
from collectors.samples.gpus import GpuProcesses
from tests.support.sent import arrived

FIXTURES = Path(__file__).parents[2] / "fixtures/devices"
COLUMNS = choose(frozenset())
H200 = {
    "index": "0", "bus_id": "00000000:83:00.0", "uuid": "GPU-1", "count": "1", "driver": "590.48.01", "pstate": "P0",
    "temperature": "52", "memory_temperature": "40", "utilization": "100", "memory_utilization": "7",
    "memory_used": "32362", "memory_total": "143771", "power": "626.26", "power_limit": "700.00", "sm_clock": "1980",
    "sm_clock_max": "1980", "event_reasons": "0x0000000000000004", "pcie_gen": "5", "pcie_gen_max": "5",
    "pcie_width": "16", "pcie_width_max": "16", "ecc_uncorrected": "0", "sram_threshold_exceeded": "No",
    "remapped_correctable": "0", "remapped_uncorrectable": "0", "remap_pending": "No", "remap_failure": "No",
    "recovery_action": "None", "mig": "Disabled", "name": "NVIDIA H200",
}  # fmt: skip


def line(**cells: str) -> str:
    return ", ".join({**H200, **cells}[key] for key in COLUMNS.keys)


def row(**cells: str) -> Row:
    found = gpu_row(COLUMNS.keys, line(**cells))
    assert found is not None
    return found


def test_a_row_without_units() -> None:
    facts, sample, gpus = row()
    assert (facts.gpu, facts.bus_id, facts.name, facts.memory_total) == (
        0,
        "00000000:83:00.0",
        "NVIDIA H200",
        143771 << 20,
    )
    assert (sample.utilization, sample.power, sample.memory_used, sample.event_reasons) == (100, 626.26, 32362 << 20, 4)
    assert (sample.remap_pending, sample.odd, gpus) == (False, None, 1)


@pytest.mark.parametrize(
    "absent",
    [
        "[N/A]",
        "N/A",
        "[Not Supported]",
        "[Insufficient Permissions]",
        "[Requested functionality has been deprecated]",
        "",
    ],
)
def test_what_is_not_available_is_unknown_and_nothing_odd(absent: str) -> None:
    sample = row(utilization=absent, memory_temperature=absent, event_reasons=absent, remap_pending=absent).sample
    assert (sample.utilization, sample.memory_temperature, sample.event_reasons, sample.remap_pending) == (None,) * 4
    assert sample.odd is None


def test_an_odd_value_is_shown_as_what_it_is() -> None:
    sample = row(utilization="[Unknown Error]", power="ERR!", remap_failure="[GPU requires reset]").sample
    assert (sample.utilization, sample.power, sample.remap_failure) == (None, None, None)
    assert sample.odd == {"utilization": "[Unknown Error]", "power": "ERR!", "remap_failure": "[GPU requires reset]"}


def test_a_name_may_hold_a_comma() -> None:
    assert row(name="NVIDIA X, special edition").facts.name == "NVIDIA X, special edition"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "No devices were found",
        "Unable to determine the device handle for GPU3: 0000:5F:00.0: Unknown Error",
        "1, 2, 3",
    ],
)
def test_another_line_is_no_row(text: str) -> None:
    assert gpu_row(COLUMNS.keys, text) is None


def test_a_row_without_an_index_is_nobodys() -> None:
    assert gpu_row(COLUMNS.keys, line(index="[Unknown Error]")) is None


def test_a_row_of_a_lost_gpu_says_so() -> None:
    fault = lost_row(row(utilization="[GPU is lost]", power="[GPU is lost]"))
    assert fault is not None
    assert (fault.gpu, fault.bus_id, fault.text) == (0, "00000000:83:00.0", "[GPU is lost]")
    assert lost_row(row(utilization="[Unknown Error]")) is None


@pytest.mark.parametrize(
    ("text", "gpu", "bus_id"),
    [
        ("Unable to determine the device handle for GPU3: 0000:5F:00.0: Unknown Error", 3, "0000:5f:00.0"),
        ("Unable to determine the device handle for GPU 0000:25:00.0: GPU is lost.  Reboot", None, "0000:25:00.0"),
        # index and address run together: that 0000 is no index
        ("Unable to determine the device handle for GPU0000:07:00.0: Unknown Error", None, "0000:07:00.0"),
        ("Unable to determine the device handle for GPU2: 00000000:07:00.0: Not Found", 2, "00000000:07:00.0"),
        ("WARNING: infoROM is corrupted at gpu 00000000:0A:00.0", None, "00000000:0a:00.0"),
        ("Failed to initialize NVML: Unknown Error", None, ""),
    ],
)
def test_a_line_names_its_gpu(text: str, gpu: int | None, bus_id: str) -> None:
    assert device_line(text)[:2] == (gpu, bus_id)


def test_a_process_may_have_commas_in_its_name() -> None:
    process = app_row("00000000:83:00.0, 10291, 2566, python, train.py")
    assert process is not None
    assert (process.pid, process.memory, process.name) == (10291, 2566 << 20, "python, train.py")


def test_a_process_whose_memory_is_hidden_is_still_there() -> None:
    process = app_row("00000000:83:00.0, 10291, [N/A], [Not Found]")
    assert process is not None
    assert (process.memory, process.name) == (None, "")


@pytest.mark.parametrize("text", ["", "No running processes found", "a, b, c, d", "00000000:83:00.0, -, 1, x"])
def test_another_line_is_no_process(text: str) -> None:
    assert app_row(text) is None


@pytest.mark.parametrize(("name", "power"), [("h200", 626.26), ("h100", 625.68)])
def test_a_saved_query_of_every_field(name: str, power: float) -> None:
    rows, faults = saved_rows((FIXTURES / f"{name}-load.csv").read_text())
    assert [(found.sample.utilization, found.sample.power, found.sample.sm_clock) for found in rows] == [
        (100, power, 1980)
    ]
    assert faults == []


def test_a_saved_query_without_index_is_numbered_by_its_order() -> None:
    text = "uuid, utilization.gpu [%]\nGPU-b, 90 %\nGPU-a, 10 %\nGPU-b, 80 %\nGPU is lost\n"
    rows, faults = saved_rows(text)
    assert [(found.facts.gpu, found.sample.utilization) for found in rows] == [(0, 90), (1, 10), (0, 80)]
    assert [fault.text for fault in faults] == ["GPU is lost"]


def test_saved_processes() -> None:
    processes = saved_apps((FIXTURES / "h200-apps.csv").read_text())
    assert [(process.pid, process.memory) for process in processes] == [
        (10291, 2566 << 20),
        (10293, 1542 << 20),
        (10309, 28234 << 20),
    ]


WORDS = st.sampled_from(
    [*H200.values(), "[N/A]", "ERR!", "[Unknown Error]", "0x", "-1", "9" * 30, "1e9", "GPU0000:07:00.0", "\x00"]
)
CELLS = st.one_of(WORDS, st.text(max_size=20))


@given(st.lists(CELLS, max_size=40))
def test_no_row_raises(cells: list[str]) -> None:
    text = ", ".join(cells)
    gpu_row(COLUMNS.keys, text)
    app_row(text)
    assert device_line(text).text == text.strip()[:500]


@example("1980, 0, 0, 0, 0")
@example("0, 0, 32362, 0, 0")
@given(st.lists(st.lists(CELLS, max_size=6).map(", ".join), max_size=8).map("\n".join))
def test_every_line_of_a_saved_text_is_a_row_or_a_fault_and_both_can_be_sent(text: str) -> None:
    head = "index, uuid, utilization.gpu [%], memory.used [MiB], pid\n"
    rows, faults = saved_rows(head + text)
    said = [line for line in text.splitlines() if line.strip() and header(line) is None]
    assert len(rows) + len(faults) == len(said)
    for row in rows:
        assert arrived(row.facts)
        if row.sample.utilization in (None, *range(101)):  # the fleet refuses a figure that cannot be, and counts it
            assert arrived(row.sample)
    assert all(map(arrived, faults))
    assert arrived(GpuProcesses(saved_apps(head + text)))
