"""What moves in a rank, in cases that a plain process does not show."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectors.node.processes.procfs import parse_schedstat, parse_status, read_stat
from collectors.node.ranks.job_process import HeldFiles
from collectors.node.ranks.process_metrics import rank_pulse
from collectors.samples.ranks import CpuWait, RankPulse
from tests.support.fake_proc import rank_env
from tests.support.rank_bench import of, rank_bench


def pulse_of(pid: int, proc: str = "/proc") -> RankPulse:
    stat, status = read_stat(proc, pid), parse_status(Path(proc, str(pid), "status").read_bytes(), pid)
    assert stat is not None
    assert status is not None
    return rank_pulse(proc, pid, HeldFiles(proc, pid), stat, status)


def test_a_kernel_that_keeps_no_count_of_a_thread_tells_nothing() -> None:
    told = [parse_schedstat(data) for data in (b"", b"0 0 0\n", b"x", b"1500000000 7000000000 3\n")]
    assert told == [None, None, None, (1.5, 7.0)]


STATUS = """Name:\tpython
Uid:\t0\t0\t0\t0
NSpid:\t7
voluntary_ctxt_switches:\t5
nonvoluntary_ctxt_switches:\t7
"""


@pytest.mark.parametrize(("states", "told"), [("ZSD", "D"), ("ZS", "S"), ("Z", "Z"), ("ZZ", "Z")])
def test_one_that_cannot_be_killed_is_told_first(tmp_path: Path, states: str, told: str) -> None:
    folder = tmp_path / "7"
    for number, state in enumerate(states, start=7):
        task = folder / "task" / str(number)
        task.mkdir(parents=True)
        fields = f"{number} (python) {state} 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 {len(states)} 0 777 0 0 " + "0 " * 30
        (task / "stat").write_text(fields)
        (task / "wchan").write_text(f"waits_{state}")
        if number == 7:
            (folder / "stat").write_text(fields)
    (folder / "wchan").write_text("0")
    (folder / "status").write_text(STATUS)
    found = pulse_of(7, str(tmp_path))
    assert (found.state, found.wchan) == (told, "" if told == "Z" else f"waits_{told}")


def test_how_long_a_rank_waited_for_a_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = rank_bench(tmp_path, monkeypatch)
    told: list[CpuWait] = []
    for second in range(0, 28, 4):
        for pid, waited in ((50, 0.7 * min(second, 12)), (51, 0.0)):
            folder = bench.proc.add(pid, env=rank_env(pid - 50))
            (folder / "schedstat").write_text(f"700 {int(waited * 1e9)} 9\n")
            with (folder / "status").open("a") as status:
                status.write("Cpus_allowed_list:\t0-3\n")
        told += of(bench.look(4.0), CpuWait)
    assert told == [CpuWait(50, 70, "0-3", 0), CpuWait(51, 0, "0-3", 0), CpuWait(50, 0, "0-3", 0),
                    CpuWait(51, 0, "0-3", 0)]  # fmt: skip


def test_of_a_kernel_that_does_not_count_nothing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = rank_bench(tmp_path, monkeypatch)
    folder = bench.proc.add(50, env=rank_env(0))
    (folder / "schedstat").write_text("0 0 0\n")
    samples = [sample for _ in range(5) for sample in bench.look(4.0)]
    assert of(samples, CpuWait) == []
    assert {pulse.main_cpu for pulse in of(samples, RankPulse)} == {None}
