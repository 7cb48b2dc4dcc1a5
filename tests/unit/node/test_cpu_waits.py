"""Waiting for a CPU, as the source ``ranks`` tells it by schedstat."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectors.samples.ranks import CpuWait, RankPulse
from tests.support.fake_proc import rank_env
from tests.support.rank_bench import Bench, of, rank_bench


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return rank_bench(tmp_path, monkeypatch)


def count(bench: Bench, pid: int, waited: float) -> None:
    folder = bench.proc.root / str(pid)
    (folder / "schedstat").write_text(f"700 {int(waited * 1e9)} 9\n")
    with (folder / "status").open("a") as status:
        status.write("Cpus_allowed_list:\t0-3\n")


def test_a_rank_that_waits_is_told_with_its_cpus_and_so_is_one_beside_it(bench: Bench) -> None:
    for pid in (50, 51):
        bench.proc.add(pid, env=rank_env(pid - 50))
    told: list[CpuWait] = []
    for second in range(0, 12, 4):
        count(bench, 50, 0.7 * second)
        count(bench, 51, 0.0)
        told = of(bench.look(4.0), CpuWait)
    assert told == [CpuWait(50, 70, "0-3", 0), CpuWait(51, 0, "0-3", 0)]


def test_one_that_gets_its_cpu_is_not_told_of_until_it_once_was(bench: Bench) -> None:
    bench.proc.add(50, env=rank_env(0))
    told: list[int] = []
    for waited in (0.0, 0.2, 0.4, 4.0, 4.0, 4.0, 4.0):
        count(bench, 50, waited)
        told += [one.waited for one in of(bench.look(4.0), CpuWait)]
    assert (told[0], told[-1]) == (35, 0), "what was told is taken back"


def test_of_a_kernel_that_does_not_count_nothing_is_told(bench: Bench) -> None:
    bench.proc.add(50, env=rank_env(0))
    (bench.proc.root / "50" / "schedstat").write_text("0 0 0\n")
    samples = [sample for _ in range(5) for sample in bench.look(4.0)]
    assert of(samples, CpuWait) == []
    assert {pulse.main_cpu for pulse in of(samples, RankPulse)} == {None}
