"""Who is an orphan of an earlier run: nobody of the running job, nobody with a living launcher."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.probes.repair.remote.look import Relatives
from collectors.probes.repair.remote.words import Curable
from tests.support.fake_proc import FakeProc, rank_env

OLD = {"TORCHELASTIC_RUN_ID": "old"}
BARE = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"}


@pytest.fixture
def proc(tmp_path: Path) -> FakeProc:
    return FakeProc(tmp_path / "proc")


def curable(proc: FakeProc, *keep: int, young: float = 60.0) -> list[Curable]:
    return list(Relatives(str(proc.root), set(keep), young, pause=0.0).curable())


def named(proc: FakeProc, *keep: int, young: float = 60.0) -> list[tuple[str, int, bool]]:
    return [(one.what, one.pid, one.sure) for one in curable(proc, *keep, young=young)]


def test_a_rank_of_another_run_whose_launcher_is_gone(proc: FakeProc) -> None:
    proc.add(10, env=rank_env(0), parent=5)
    proc.add(5, argv=["/opt/venv/bin/torchrun"], comm="torchrun")
    proc.add(20, env=rank_env(0, 1) | OLD, start=1)
    (one,) = curable(proc, 10)
    assert (one.what, one.pid, one.rank, one.run_id, one.sure) == ("orphan", 20, 0, "old", True)
    assert one.why == "its launcher (torchrun) is gone"


def test_a_living_launcher_or_any_living_parent_makes_it_none(proc: FakeProc) -> None:
    proc.add(5, argv=["torchrun"], comm="torchrun")
    proc.add(6, argv=["bash", "run.sh"], executable="/usr/bin/bash", comm="bash")
    proc.add(20, env=rank_env(0, 1) | OLD, parent=5)
    proc.add(21, env=rank_env(0, 1, TORCHELASTIC_RUN_ID="older"), parent=6)
    assert named(proc) == []


def test_the_running_jobs_ranks_are_none_though_an_init_has_them(proc: FakeProc) -> None:
    proc.add(10, env=rank_env(0))
    proc.add(11, env=rank_env(1))
    proc.add(12, env=rank_env(1), parent=11)
    assert named(proc, 10, 11) == []
    assert [pid for _, pid, _ in named(proc)] == [10, 11, 12]


def test_a_helper_whose_rank_is_gone(proc: FakeProc) -> None:
    proc.add(10, env=rank_env(0))
    proc.add(11, env=rank_env(1))
    proc.add(30, env=rank_env(1) | OLD, comm="pt_data_worker")
    (one,) = curable(proc, 10, 11)
    assert (one.pid, one.role, one.sure, one.why) == (30, "stray", True, "a helper whose rank is gone")


def test_what_is_left_of_a_run_is_an_orphan_once_it_is_no_longer_starting(proc: FakeProc) -> None:
    proc.add(20, env=BARE | {"LOCAL_WORLD_SIZE": "2"}, start=1)
    assert named(proc, 20, young=1e9) == []
    (one,) = curable(proc, 20, young=0.0)
    assert (one.pid, one.sure, one.why) == (20, True, "1 of the 2 ranks that its run had here are left")


def test_a_stopped_rank_of_the_job_can_go_on_and_one_in_a_debugger_cannot(proc: FakeProc) -> None:
    proc.add(10, env=rank_env(0), state="T")
    proc.add(11, env=rank_env(1), state="t")
    proc.add(12, env=rank_env(0), parent=10, state="T")
    assert named(proc, 10, 11) == [("stopped", 10, True), ("stopped", 12, True)]
    assert named(proc) == [("orphan", 10, True), ("orphan", 11, True), ("orphan", 12, True)]


@given(
    parents=st.lists(st.integers(0, 6), min_size=6, max_size=6),
    keep=st.sets(st.integers(20, 25)),
    runs=st.lists(st.sampled_from(["old", "older"]), min_size=6, max_size=6),
)
def test_nobody_below_a_living_parent_or_of_the_job_is_ever_named(
    tmp_path_factory: pytest.TempPathFactory, parents: list[int], keep: set[int], runs: list[str]
) -> None:
    proc = FakeProc(tmp_path_factory.mktemp("p") / "proc")
    proc.add(6, argv=["bash"], executable="/usr/bin/bash", comm="bash")
    above = {20 + at: (1, 6, *range(20, 25))[parents[at]] for at in range(6)}
    above = {pid: parent if parent < pid else 1 for pid, parent in above.items()}
    for at, (pid, parent) in enumerate(above.items()):
        proc.add(pid, env=rank_env(at % 2, 1, TORCHELASTIC_RUN_ID=runs[at]), parent=parent)

    def way(pid: int) -> list[int]:
        return [pid, *(way(above[pid]) if pid in above else [])]

    for what, pid, _ in named(proc, *keep):
        assert what == "orphan"
        assert 6 not in way(pid)
        assert not keep & set(way(pid))
