"""The source of GPUs against a simulated nvidia-smi: what it asks, and what becomes of one that misbehaves."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from collectors.node.gpus import nvidia
from collectors.node.gpus.nvidia import Gpus, GpuUsers
from collectors.node.source import Absent, Failed, NotResponding, Shared
from collectors.samples.gpus import GpuFault, GpuProcesses, GpuSample
from collectors.samples.stream import Settings
from hangtop.demo.devices.bench import Bench, Hardware
from hangtop.demo.job.device import RECORD
from tests.support.looks import look, looks, until, until_raised
from tests.support.node_agent import children

FAST = Settings(0.05, 0.0, None, [], [], [])


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    made = Bench(tmp_path)
    made.install()
    return made


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gpus]:
    monkeypatch.setattr(nvidia, "FASTEST", 0.05)
    monkeypatch.setattr(nvidia, "BACK_OFF", 0.1)
    made = Gpus(Shared(), proc=str(tmp_path))
    made.configure(FAST)
    yield made
    made.close()


def test_who_is_on_a_gpu_and_his_share_of_it(bench: Bench) -> None:
    source = GpuUsers(Shared())
    (bench.folder / "gpu1.state").write_bytes(RECORD.pack(os.getpid(), 0.0, 1.0, 30 << 30, 0))
    source.shared.sm_shares = {("0000:3e:00", os.getpid()): 87}
    (process,) = until(source, GpuProcesses, lambda sample: bool(sample.processes)).processes
    assert (process.pid, process.memory, process.bus_id, process.sm) == (os.getpid(), 30 << 30, "00000000:3e:00.0", 87)


def test_an_old_driver_is_asked_by_old_names(bench: Bench, source: Gpus) -> None:
    bench.hardware = Hardware(
        hidden_fields=("clocks_event_reasons.active", "power.draw.instant", "gpu_recovery_action")
    )
    bench.install()
    sample = until(source, GpuSample)
    assert (sample.event_reasons, sample.power, sample.recovery_action) == (1, 71.0, "")


@pytest.mark.parametrize(
    ("fault", "said"), [("gpu0 lost", "Unable to determine"), ("gpu0 missing", "missing from nvidia-smi's list")]
)
def test_a_gpu_that_is_gone_and_comes_back(bench: Bench, source: Gpus, fault: str, said: str) -> None:
    until(source, GpuSample, lambda sample: sample.gpu == 1)
    bench.plant(fault)
    gone = until(source, GpuFault)
    assert (gone.gpu, gone.bus_id) == (0, "00000000:1a:00.0")
    assert gone.text.startswith(said)
    bench.plant()
    assert until(source, GpuFault) == GpuFault(0, "00000000:1a:00.0", "")


def test_a_silent_nvidia_smi_is_late_and_alone(bench: Bench, source: Gpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvidia, "SILENCE", 0.4)
    until(source, GpuSample)
    bench.plant("driver wedged")
    silent = until_raised(source, NotResponding)
    assert isinstance(silent, NotResponding)
    assert silent.age >= 0.4
    assert len(children_named("query-gpu")) == 1
    bench.plant()
    until(source, GpuSample)
    assert look(source)[1] is None


def test_one_that_dies_says_why_and_is_started_again(bench: Bench, source: Gpus) -> None:
    until(source, GpuSample)
    bench.plant("driver dies")
    assert str(until_raised(source, Failed)) == "Failed to initialize NVML: Unknown Error"
    bench.plant()
    until(source, GpuSample)
    assert look(source)[1] is None


def test_a_driver_that_is_not_loaded(bench: Bench, source: Gpus) -> None:
    bench.plant("driver gone")
    assert "couldn't communicate with the NVIDIA driver" in str(until_raised(source, Absent))


def children_named(word: str) -> list[int]:
    """Pids of this process's children whose command holds a word."""
    return [pid for pid in children(os.getpid()) if word in Path(f"/proc/{pid}/cmdline").read_text()]


def test_a_new_interval_does_not_pile_up_processes(bench: Bench, source: Gpus) -> None:
    until(source, GpuSample)
    (first,) = children_named("query-gpu")
    bench.plant("driver wedged")
    source.configure(FAST._replace(interval=0.07))
    for _ in looks(source):
        running = children_named("query-gpu")
        assert len(running) <= 1
        if running and first not in running:
            break
