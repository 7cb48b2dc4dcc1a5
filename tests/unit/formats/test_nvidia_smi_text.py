"""Saved outputs of nvidia-smi in all its formats."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.formats.nvidia_smi_text import Saved, looks_like, read
from collectors.samples.gpus import GpuProcesses
from tests.support.sent import arrived

FIXTURES = Path(__file__).parents[2] / "fixtures/devices"
TABLE = (FIXTURES / "h200-load-table.txt").read_text()
QUERY = (FIXTURES / "h200-load-q.txt").read_text()
CSV = (FIXTURES / "h200-load.csv").read_text()
APPS = [(10291, 2566 << 20), (10293, 1542 << 20), (10309, 28234 << 20)]
OLD_TABLE = """\
| NVIDIA-SMI 460.32.03    Driver Version: 460.32.03    CUDA Version: 11.2     |
|   0  Tesla V100-SXM2...  On   | 00000000:06:00.0 Off |                    0 |
| N/A   36C    P0    43W / 300W |      0MiB / 16160MiB |      0%      Default |
|                               |                      |                  N/A |
|   1  ERR!                On   | 00000000:07:00.0 Off |                 ERR! |
|ERR!  ERR! ERR!    ERR! / ERR! |   1234MiB / 16160MiB |   ERR!         ERR! |
|    0   N/A  N/A     12345      C   python                           1234MiB |
"""


def test_the_table() -> None:
    saved = read(TABLE)
    (row,) = saved.rows
    assert (saved.form, row.facts.name, row.facts.bus_id, row.facts.driver) == (
        "table", "NVIDIA H200", "00000000:83:00.0", "590.48.01",
    )  # fmt: skip
    sample = row.sample
    assert (sample.utilization, sample.power, sample.temperature, sample.memory_used) == (100, 628.0, 52, 32362 << 20)
    assert [(app.pid, app.memory) for app in saved.apps] == APPS


def test_an_older_table_with_errors_in_it() -> None:
    saved = read(OLD_TABLE)
    first, second = saved.rows
    assert (first.facts.name, first.sample.power, first.sample.odd) == ("Tesla V100-SXM2...", 43.0, None)
    assert second.facts.gpu == 1
    assert second.sample.odd is not None
    assert second.sample.odd["utilization"] == "ERR!"
    assert [(app.pid, app.bus_id) for app in saved.apps] == [(12345, "00000000:06:00.0")]


def test_the_long_query() -> None:
    saved = read(QUERY)
    (row,) = saved.rows
    assert (saved.form, row.facts.pcie_gen_max, row.facts.sm_clock_max, row.facts.mig) == ("query", 5, 1980, "Disabled")
    sample = row.sample
    assert (sample.power, sample.sm_clock, sample.event_reasons, sample.ecc_uncorrected) == (625.24, 1980, 0, 0)
    assert (sample.remap_pending, sample.recovery_action, sample.sram_threshold_exceeded) == (False, "None", False)
    assert [(app.pid, app.memory) for app in saved.apps] == APPS


def test_the_reasons_of_the_long_query_become_a_mask() -> None:
    hot = QUERY.replace(
        "HW Slowdown                                    : Not", "HW Slowdown                                    :"
    )
    hot = hot.replace(
        "HW Thermal Slowdown                        : Not", "HW Thermal Slowdown                        :"
    )
    assert read(hot).rows[0].sample.event_reasons == 0x48


def test_errors_of_the_long_query_are_summed() -> None:
    bad = QUERY.replace(
        "DRAM Uncorrectable                         : 0", "DRAM Uncorrectable                         : 2", 1
    )
    assert read(bad).rows[0].sample.ecc_uncorrected == 2


def test_csv() -> None:
    saved = read(CSV)
    assert (saved.form, len(saved.rows), saved.apps) == ("csv", 1, [])
    saved = read((FIXTURES / "h200-apps.csv").read_text())
    assert (saved.form, saved.rows, [(app.pid, app.memory) for app in saved.apps]) == ("csv", [], APPS)


JSON = """{"hostname": "n1", "gpus": [
 {"index": 0, "uuid": "GPU-1", "name": "NVIDIA H200", "temperature.gpu": 52, "utilization.gpu": 100, "power.draw": 628,
  "memory.used": 32362, "memory.total": 143771, "pci.bus_id": "00000000:83:00.0",
  "processes": [{"pid": 10291, "command": "python", "gpu_memory_usage": 2566}]},
 {"index": 1, "utilization.gpu": null, "memory.used": 3, "processes": "none"}]}"""


def test_json_of_a_tool_around_it() -> None:
    saved = read(JSON)
    first, second = saved.rows
    assert (saved.form, first.sample.utilization, first.sample.memory_used) == ("json", 100, 32362 << 20)
    assert (second.facts.gpu, second.sample.utilization) == (1, None)
    assert [(app.pid, app.memory) for app in saved.apps] == APPS[:1]
    assert read('{"gpus": 3}').form == read("[1, {}]").form == read('{"loss": 1').form == ""


@pytest.mark.parametrize(
    "text", [TABLE, QUERY, CSV, JSON, "GPU 0: NVIDIA H200 (UUID: GPU-1)\n", "No devices were found\n"]
)
def test_any_form_is_recognised_by_its_head(text: str) -> None:
    assert looks_like(text[:4096])
    assert read(text).form


@pytest.mark.parametrize("head", ["", "step 1\n", '{"loss": 1}', "pid, rank\n", "NCCL INFO x\n"])
def test_another_head_is_not(head: str) -> None:
    assert not looks_like(head)


def test_a_cell_that_reads_err_is_a_fault_of_that_gpu() -> None:
    assert [(fault.gpu, fault.bus_id) for fault in read(OLD_TABLE).faults] == [(1, "00000000:07:00.0")]


def test_the_list() -> None:
    saved = read("GPU 0: NVIDIA H200 (UUID: GPU-1)\nGPU 1: NVIDIA H200 (UUID: GPU-2)\n")
    assert saved.form == "list"
    assert [(row.facts.gpu, row.facts.uuid) for row in saved.rows] == [(0, "GPU-1"), (1, "GPU-2")]


@pytest.mark.parametrize("text", [TABLE, QUERY, CSV, ""])
def test_a_line_about_a_lost_gpu_is_a_fault_in_any_of_them(text: str) -> None:
    line = "Unable to determine the device handle for GPU3: 0000:5F:00.0: Unknown Error"
    saved = read(f"{text}{line}\n")
    assert [(fault.gpu, fault.bus_id) for fault in saved.faults] == [(3, "0000:5f:00.0")]
    assert saved.form


def test_a_healthy_output_has_no_faults() -> None:
    assert [read(text).faults for text in (TABLE, QUERY, CSV)] == [[], [], []]


@pytest.mark.parametrize("text", ["", "hello\nworld", "index,loss\n1,2\n", "NCCL INFO Channel 00 : 0[0] -> 1[1]"])
def test_another_text_is_none_of_them(text: str) -> None:
    saved = read(text)
    assert (saved.form, saved.rows, saved.faults, saved.apps) == ("", [], [], [])


LINES = st.sampled_from(
    [*TABLE.splitlines(), *OLD_TABLE.splitlines(), *QUERY.splitlines()[:120], *CSV.splitlines(), "|", " : "]
)


def check(saved: Saved) -> None:
    """What tells something says of what form it was, and is what a node could have sent."""
    assert saved.form or not (saved.rows or saved.faults or saved.apps)
    for row in saved.rows:
        assert arrived(row.facts)
        assert arrived(row.sample)
    assert all(map(arrived, saved.faults))
    assert arrived(GpuProcesses(saved.apps))


@given(st.lists(LINES, max_size=40), st.text(max_size=80))
def test_whatever_is_read_of_a_mixture_can_be_used(lines: list[str], end: str) -> None:
    check(read("\n".join(lines) + end))


@given(st.sampled_from([TABLE, QUERY, CSV]), st.integers(0, 15000), st.text(max_size=30))
def test_whatever_is_read_of_damaged_output_can_be_used(text: str, at: int, damage: str) -> None:
    check(read(text[:at] + damage + text[at + len(damage) :]))
