"""A node without Python shows its GPUs all the same, and nvidia-smi does not outlive the one who watches."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest

from collectors.fleet import gpu_stream
from collectors.fleet.local import Local
from collectors.node.gpus.nvidia_smi_fields import Columns
from collectors.samples.gpus import GpuFacts, GpuFault, GpuSample
from collectors.samples.stream import Tick

COLUMNS = Columns(("index", "bus_id", "utilization", "name"), ("index", "pci.bus_id", "utilization.gpu", "name"))

SMI = """\
#!/bin/sh
case "$*" in
  *--help-query-gpu*) printf '"index"\\n"pci.bus_id"\\n"utilization.gpu"\\n"made.up"\\n"name"\\n';;
  *-lms*) echo $$ > {folder}/pid; while :; do echo "0, 00000000:07:00.0, 40, H200"; sleep 0.02; done;;
  *pci.bus_id*) echo 'Field "pci.bus_id" is not a valid field to query.'; exit 2;;
  *) echo "0, 40, H200";;
esac
"""


@pytest.fixture
async def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Local]:
    tool = tmp_path / "nvidia-smi"
    tool.write_text(SMI.format(folder=tmp_path))
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    made = Local("here")
    yield made
    await made.close()


def feed(*chunks: bytes) -> list[NamedTuple]:
    samples: list[NamedTuple] = []
    stream = gpu_stream.GpuStream(COLUMNS, lambda found, _size: samples.extend(found))
    for chunk in chunks:
        stream.feed(chunk)
    return samples


def test_rows_become_samples_and_each_sweep_ends_with_a_tick() -> None:
    samples = feed(b"0, 00000000:07:00.0, 40, H2", b"00\n1, 00000000:0A:00.0, [N/A], H200\n")
    assert [type(sample) for sample in samples] == [GpuFacts, GpuSample, GpuFacts, GpuSample, Tick]
    assert [sample.utilization for sample in samples if isinstance(sample, GpuSample)] == [40, None]


def test_what_nvidia_smi_complains_about_is_a_fault_and_clean() -> None:
    row = b"0, 00000000:07:00.0, 40, H200\n"
    lost = b"\x1b[31mUnable to determine the device handle for GPU1: 0000:0A:00.0: Unknown Error\n"
    faults = [sample for sample in feed(row + lost, row + lost, row) if isinstance(sample, GpuFault)]
    assert faults[0].text.startswith("Unable to determine")


def test_half_a_line_for_ever_does_not_grow() -> None:
    assert feed(*[b"x" * 50_000] * 20, b"\n") == []


async def test_columns_that_the_driver_knows(node: Local) -> None:
    columns = await gpu_stream.choose_columns(node)
    assert columns is not None
    assert columns.fields == ("index", "utilization.gpu", "name"), "pci.bus_id is listed, and rejected all the same"


async def test_no_nvidia_smi(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert await gpu_stream.choose_columns(Local("here")) is None


def runs(pid: int) -> bool:
    """Whether a process exists that is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_for_end(pid: int) -> None:
    """Wait until a process has ended; whether its parent has looked at it yet is not our business."""
    while runs(pid):
        time.sleep(0.005)


@pytest.mark.parametrize("end", ["silence", "input"])
async def test_nvidia_smi_ends_without_heartbeat_and_with_its_input(
    node: Local, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    monkeypatch.setattr(gpu_stream, "SILENCE", 1)
    out: asyncio.Queue[bytes] = asyncio.Queue()
    process = await node.start(gpu_stream.command(COLUMNS, 1.0), on_stdout=out.put_nowait, on_stderr=print)
    process.write(b'["Beat",[1]]\n')
    assert (await out.get()).startswith(b"0, 00000000:07:00.0, 40, H200\n")
    pid = int((tmp_path / "pid").read_text())
    if end == "input":
        process.write_eof()
    async with asyncio.timeout(60):
        await process.wait()
        await asyncio.to_thread(wait_for_end, pid)


async def test_the_guard_ends_when_nvidia_smi_does(node: Local, tmp_path: Path) -> None:
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\necho gone\n")
    process = await node.start(gpu_stream.command(COLUMNS, 1.0), on_stdout=print, on_stderr=print)
    async with asyncio.timeout(60):
        while process.running:
            process.write(b'["Beat",[1]]\n')
            await asyncio.sleep(0.02)
