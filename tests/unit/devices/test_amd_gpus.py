"""AMD's GPUs: the same samples as NVIDIA's, from a /sys of the tests' own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from collectors.node.gpus.nvidia import Gpus
from collectors.node.source import Absent, Shared
from collectors.samples.gpus import GpuFacts, GpuFault, GpuProcesses, GpuSample
from hangtop.demo.devices.bench import Bench
from tests.support.amd import write_card, write_node, write_process
from tests.support.looks import look, until, until_raised


@pytest.fixture
def sys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("collectors.node.child.PLACES", ())
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    monkeypatch.setenv("HANGTOP_SYS", str(tmp_path / "sys"))
    (tmp_path / "sys").mkdir()
    return tmp_path / "sys"


@pytest.fixture
def source(sys: Path) -> Iterator[Gpus]:
    made = Gpus(Shared())
    yield made
    made.close()


def test_facts_and_rows_by_sysfs_alone(sys: Path, source: Gpus) -> None:
    write_card(sys, 1, "0000:c6:00.0", gpu_busy_percent=99)
    write_card(sys, 2, "0000:05:00.0")
    write_card(sys, 0, "0000:03:00.0", vendor="0x102b")  # the server's own display
    samples, error = look(source)
    assert error is None
    facts = [sample for sample in samples if isinstance(sample, GpuFacts)]
    rows = [sample for sample in samples if isinstance(sample, GpuSample)]
    assert [(one.gpu, one.bus_id) for one in facts] == [(0, "0000:05:00.0"), (1, "0000:c6:00.0")]
    assert facts[0] == GpuFacts(
        0, "a1b2c3d4e5f60718", "0000:05:00.0", "AMD Instinct MI300X OAM", 206141652992, 750.0, None, None, None
    )
    assert [row.utilization for row in rows] == [7, 99]
    assert rows[0] == GpuSample(
        0, 61, None, 7, None, 1 << 30, 142.0, 2090, None, None, None, 0, None, None, None, None, ""
    )
    again, _ = look(source)
    assert not any(isinstance(sample, GpuFacts) for sample in again)


def test_who_computes_on_which(sys: Path, source: Gpus) -> None:
    write_card(sys, 0, "0000:05:00.0")
    write_card(sys, 1, "0000:c6:00.0")
    write_node(sys, 0, 0, 0)
    write_node(sys, 1, 28851, 5 << 8)
    write_node(sys, 2, 43178, 0xC6 << 8)
    write_process(sys, os.getpid(), {"28851": 0, "43178": 12 << 30})
    write_process(sys, 4000000, {"28851": 1 << 30})  # of another pid namespace
    (found,) = until(source, GpuProcesses).processes
    assert (found.bus_id, found.pid, found.memory) == ("0000:c6:00.0", os.getpid(), 12 << 30)


def test_one_that_does_not_answer_and_comes_back(sys: Path, source: Gpus) -> None:
    write_card(sys, 0, "0000:05:00.0")
    device = write_card(sys, 1, "0000:c6:00.0")
    assert until(source, GpuSample, lambda row: row.gpu == 1)
    used = device / "mem_info_vram_used"
    used.unlink()
    samples, _ = look(source)
    assert GpuFault(1, "0000:c6:00.0", "amdgpu: No such file or directory") in samples
    assert [sample.gpu for sample in samples if isinstance(sample, GpuSample)] == [0]
    used.write_text("5\n")
    samples, _ = look(source)
    assert GpuFault(1, "0000:c6:00.0", "") in samples


def test_nvidia_s_come_first_where_a_processor_has_one_of_its_own(sys: Path, source: Gpus, tmp_path: Path) -> None:
    write_card(sys, 0, "0000:05:00.0")
    Bench(tmp_path).install()
    assert until(source, GpuFacts).name == "NVIDIA H100 80GB HBM3"


def test_no_gpu_of_either_make(sys: Path, source: Gpus) -> None:
    write_card(sys, 0, "0000:05:00.0", vendor="0x8086")
    assert str(until_raised(source, Absent)) == "no nvidia-smi on this node: no NVIDIA driver"
