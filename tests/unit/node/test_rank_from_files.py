"""Ranks by the log of Ray Train and by command lines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from collectors.node.ranks.identifier import ArgvRank, ranks_by_option, ray_train_ranks
from tests.support.fake_proc import PYTHON, FakeProc


class Workers:
    """Workers of Ray Train of one session."""

    def __init__(self, folder: Path) -> None:
        self.proc = FakeProc(folder / "proc")
        self.logs = folder / "session_1" / "logs" / "train"
        self.logs.mkdir(parents=True)

    def start(self, pid: int, *lines: str, uid: int = 0) -> Path:
        """Start one that has logged this."""
        folder = self.proc.add(pid, argv=["ray::RayTrainWorker"], uid=uid)
        file = self.logs / f"ray-train-sys-worker-{pid:056x}.log"
        file.write_text("".join(line + "\n" for line in lines))
        self.proc.link(folder / "fd" / "40", str(file))
        return file

    def ranks(self, *pids: int) -> dict[int, int]:
        return ray_train_ranks(frozenset(pids), str(self.proc.root))


@pytest.fixture
def workers(tmp_path: Path) -> Workers:
    return Workers(tmp_path)


def launching(rank: object) -> str:
    return json.dumps({"message": "Launching", "world_rank": rank, "local_rank": 1, "node_rank": 1})


def test_a_log_of_ray_train_tells_the_rank_and_a_torn_line_does_not(workers: Workers) -> None:
    workers.start(50, json.dumps({"worker_id": "x"}), launching(3), '{"message": "cut off", "world_rank": 9')
    assert workers.ranks(50) == {50: 3}


@pytest.mark.parametrize("value", [-1, True, "3", None, [1], 99999999999])
def test_a_rank_that_is_no_small_number_is_none(workers: Workers, value: object) -> None:
    workers.start(50, launching(value))
    assert workers.ranks(50) == {}


def test_two_workers_with_one_number_have_none(workers: Workers) -> None:
    for pid, rank in ((50, 0), (51, 0), (52, 1)):
        workers.start(pid, launching(rank))
    assert workers.ranks(50, 51, 52) == {52: 1}


def test_a_log_that_the_owner_of_the_process_may_not_read_is_not_read(workers: Workers) -> None:
    file = workers.start(50, launching(1), uid=4242)
    assert workers.ranks(50) == {50: 1}
    file.chmod(0o600)
    assert workers.ranks(50) == {}


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("main.py --rank 3 --world-size=8", ArgvRank(3, 8)),
        ("train.py --process_id=3 --num_processes=8", ArgvRank(3, 8)),
        ("train.py --multiprocess_gpu --process_index 3 --process_count 8", ArgvRank(3, 8)),
        ("train.py --jax_distributed.process-id=3 --world_size 4", ArgvRank(3, 4)),
        ("tune.py --rank=16", None),
        ("main.py --rank 8 --world-size=8", None),
        ("main.py --lora-rank 16 --world_size=32", None),
        ("main.py --node-rank=1 --local_rank=3 --world-size 4", None),
        ("train.py --process_id --verbose", None),
    ],
)
def test_an_option_tells_the_rank(words: str, found: ArgvRank | None) -> None:
    assert ranks_by_option({50: [PYTHON, *words.split()]}) == ({} if found is None else {50: found})


def test_bare_rank_options_of_two_processes_are_ranks_unless_they_are_the_same() -> None:
    both = {54: [PYTHON, "a.py", "--rank=4"], 55: [PYTHON, "a.py", "--rank=5"]}
    assert {pid: one.rank for pid, one in ranks_by_option(both).items()} == {54: 4, 55: 5}
    assert ranks_by_option({**both, 56: [PYTHON, "a.py", "--rank=5"]}) == {}
