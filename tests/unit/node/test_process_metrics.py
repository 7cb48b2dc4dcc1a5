"""What moves in a rank, in cases that a plain process does not show."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectors.samples.ranks import RankProcess, RankPulse
from tests.support.fake_proc import rank_env
from tests.support.rank_bench import Bench, of, rank_bench


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return rank_bench(tmp_path, monkeypatch)


@pytest.mark.parametrize(("states", "told"), [("ZSD", "D"), ("ZS", "S"), ("Z", "Z"), ("ZZ", "Z")])
def test_of_a_process_whose_first_thread_has_ended_one_that_cannot_be_killed_is_told(
    bench: Bench, states: str, told: str
) -> None:
    bench.proc.add(50, env=rank_env(0))
    bench.look()
    folder = bench.proc.add(50, env=rank_env(0), state="Z", left=max(2, len(states)))
    (folder / "wchan").write_text("0")
    for number, state in enumerate(states, start=50):
        task = folder / "task" / str(number)
        task.mkdir(exist_ok=True)
        (task / "stat").write_text((folder / "stat").read_text().replace(") Z ", f") {state} "))
        (task / "wchan").write_text(f"waits_{state}")
    (found,) = of(bench.look(), RankPulse)
    assert (found.state, found.wchan) == (told, "" if told == "Z" else f"waits_{told}")


def test_how_long_a_rank_waited_for_a_cpu(bench: Bench) -> None:
    told: list[tuple[int, int | None]] = []
    for second in range(0, 28, 4):
        for pid, waited in ((50, 0.7 * min(second, 12)), (51, 0.0)):
            folder = bench.proc.add(pid, env=rank_env(pid - 50))
            (folder / "schedstat").write_text(f"700 {int(waited * 1e9)} 9\n")
            with (folder / "status").open("a") as status:
                status.write("Cpus_allowed_list:\t0-3\n")
        samples = bench.look(4.0)
        told += [(one.pid, one.waited) for one in of(samples, RankPulse)]
    assert list(dict.fromkeys(told)) == [(50, None), (51, None), (50, 70), (51, 0), (50, 0)]
    assert {(one.allowed, one.nice) for one in of(samples, RankProcess)} == {("0-3", 0)}


@pytest.mark.parametrize(("schedstat", "cpu"), [("0 0 0\n", None), ("x", None), ("1500000000 7000000000 3\n", 1.5)])
def test_of_a_kernel_that_does_not_count_nothing_is_told(bench: Bench, schedstat: str, cpu: float | None) -> None:
    (bench.proc.add(50, env=rank_env(0)) / "schedstat").write_text(schedstat)
    samples = [sample for _ in range(5) for sample in bench.look(4.0)]
    assert [pulse.waited for pulse in of(samples, RankPulse)][-1] == (None if cpu is None else 0)
    assert {pulse.main_cpu for pulse in of(samples, RankPulse)} == {cpu}
