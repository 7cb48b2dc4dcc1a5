"""Ranks of Ray's workers by their logs, and by the pipe of torch's recorder, over a folder that plays /proc."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from collectors.node.ranks.rank_from_files import rank_in, rank_of_pipe, ray_ranks
from tests.support.fake_proc import FakeProc


class Workers:
    """Workers of one session, with their files."""

    def __init__(self, folder: Path) -> None:
        self.proc = FakeProc(folder / "proc")
        self.session = folder / "session_1"
        (self.session / "logs" / "train").mkdir(parents=True)

    def start(self, pid: int, said: str = ":job_id:01000000\n:actor_name:Trainer\n", *, uid: int = 0) -> str:
        """Start one that has written this; returns its id."""
        worker = f"{pid:056x}"
        folder = self.proc.add(pid, argv=["ray::Trainer.run"], uid=uid)
        logs = self.session / "logs"
        for number, ending in ((1, "out"), (2, "err")):
            file = logs / f"worker-{worker}-01000000-{pid}.{ending}"
            file.write_text(said)
            self.proc.link(folder / "fd" / str(number), str(file))
        return worker

    def train_log(self, pid: int, *lines: str) -> None:
        """Give it a log of Ray Train's."""
        file = self.session / "logs" / "train" / f"ray-train-sys-worker-{pid:056x}.log"
        file.write_text("".join(line + "\n" for line in lines))
        self.proc.link(self.proc.root / str(pid) / "fd" / "40", str(file))

    def ranks(self, *pids: int) -> dict[int, int]:
        return ray_ranks(frozenset(pids), str(self.proc.root))


@pytest.fixture
def workers(tmp_path: Path) -> Workers:
    return Workers(tmp_path)


def named(rank: int) -> str:
    return f":job_id:01000000\n:actor_name:Trainer\nloads\n:actor_name:Trainer(rank={rank})\n"


def test_what_an_actor_calls_itself_in_its_output_tells_its_rank(workers: Workers) -> None:
    workers.start(50, named(4))
    workers.start(51, named(6))
    workers.start(52)
    assert workers.ranks(50, 51, 52) == {50: 4, 51: 6}


def test_a_log_of_ray_train_tells_the_rank_and_a_torn_line_does_not(workers: Workers) -> None:
    workers.start(50)
    workers.train_log(
        50,
        json.dumps({"message": "Changing the working directory", "worker_id": f"{50:056x}"}),
        json.dumps({"message": "Launching", "world_rank": 3, "local_rank": 1, "node_rank": 1}),
        '{"message": "cut off", "world_rank": 9',
    )
    assert workers.ranks(50) == {50: 3}


@pytest.mark.parametrize("value", ["-1", "true", '"3"', "null", "[1]", "99999999999"])
def test_a_rank_that_is_no_small_number_is_none(workers: Workers, value: str) -> None:
    workers.start(50)
    workers.train_log(50, f'{{"world_rank": {value}}}')
    assert workers.ranks(50) == {}


def test_two_with_one_number_have_none(workers: Workers) -> None:
    workers.start(50, named(0))
    workers.start(51, named(0))
    workers.start(52, named(1))
    assert workers.ranks(50, 51, 52) == {52: 1}


def test_a_file_that_its_owner_may_not_read_is_not_read_for_him(workers: Workers) -> None:
    workers.start(50, named(1), uid=4242)
    assert workers.ranks(50) == {50: 1}
    for file in (workers.session / "logs").glob("worker-*"):
        file.chmod(0o600)
    assert workers.ranks(50) == {}


def test_what_is_no_worker_of_rays_is_none(workers: Workers) -> None:
    folder = workers.proc.add(60)
    workers.proc.link(folder / "fd" / "1", "/runs/logs/worker-3-4-5.out")
    assert workers.ranks(60) == {}


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("Trainer(rank=1)", 1), ("trainer_rank_3", 3), ("global rank 12", 12), ("Rank #7", 7),
        ("T(tp_rank=3, rank=5)", 5), ("T(local_rank=1)", None), ("dp-rank-2", None), ("T(rank=1, of rank=2)", None),
        ("Trainer", None), ("worker_3", None), ("rank=12345678", None),
    ],
)  # fmt: skip
def test_only_a_number_that_is_called_the_rank_is_one(name: str, rank: int | None) -> None:
    assert rank_in(name) == rank


def test_the_pipe_of_the_recorder_tells_the_rank(workers: Workers) -> None:
    folder = workers.proc.add(50)
    workers.proc.link(folder / "fd" / "9", "/tmp/pipe_7.pipe")
    env = {"TORCH_NCCL_DEBUG_INFO_PIPE_FILE": "/tmp/pipe_"}
    assert rank_of_pipe(str(workers.proc.root), 50, env) == 7
    assert rank_of_pipe(str(workers.proc.root), 50, {}) is None
