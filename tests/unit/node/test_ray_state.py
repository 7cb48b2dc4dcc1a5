"""Ranks of Ray's workers by its own files and its list of actors, over a folder that plays /proc; lines as of 2.60."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from collectors.node.ranks import ray_actors
from collectors.node.ranks.ray_actors import Actor
from collectors.node.ranks.ray_state import ranks_of
from collectors.node.ranks.ray_worker import rank_in, worker_of
from tests.support.fake_proc import FakeProc

NODE = "5a" * 28


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
        core = logs / f"python-core-worker-{worker}_{pid}.log"
        core.write_text(
            f"[2026-11-26 01:09:22,130 I 7 7] core_worker_process.cc:299: worker_id={worker} node_id={NODE}\n"
        )
        self.proc.link(folder / "fd" / "15", str(core))
        return worker

    def train_log(self, pid: int, *lines: str) -> None:
        """Give it a log of Ray Train's."""
        file = self.session / "logs" / "train" / f"ray-train-sys-worker-{pid:056x}.log"
        file.write_text("".join(line + "\n" for line in lines))
        self.proc.link(self.proc.root / str(pid) / "fd" / "40", str(file))

    def ranks(self, *pids: int) -> dict[int, int]:
        return ranks_of(str(self.proc.root), frozenset(pids))


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


def test_two_of_a_session_with_one_number_have_none(workers: Workers) -> None:
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
    assert worker_of(60, str(workers.proc.root)) is None


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


def actors(*names: str, cls: str = "Trainer") -> list[Actor]:
    return [Actor("01000000", cls, name, NODE, 50 + number) for number, name in enumerate(names)]


@pytest.mark.parametrize(
    ("names", "ranks"),
    [
        (("w_1", "w_0", "w_2"), [1, 0, 2]),
        (("run7_rank_0", "run7_rank_1"), [0, 1]),
        (("run7_w0", "run7_w1"), [0, 1]),
        (("w_0", "w_2"), []),
        (("w_0_0", "w_1_1"), []),
        (("w_0", "v_1"), []),
        (("w_0",), []),
        (("", ""), []),
    ],
)
def test_names_number_actors_only_where_they_count_all_of_them(names: tuple[str, ...], ranks: list[int]) -> None:
    told = ray_actors.numbers(actors(*names))
    assert [told[NODE, 50 + number] for number in range(len(told))] == ranks


def answer(*rows: dict[str, Any], status: str = "200 OK", total: int | None = None) -> bytes:
    result = {"total": len(rows) if total is None else total, "result": list(rows)}
    return f"HTTP/1.0 {status}\r\nA: b\r\n\r\n{json.dumps({'result': True, 'data': {'result': result}})}".encode()


ROW = {"job_id": "01000000", "class_name": "Trainer", "name": "w_0", "node_id": NODE, "pid": 50, "state": "ALIVE"}


def test_of_the_dashboards_answer_the_living_are_taken() -> None:
    assert ray_actors.told(answer(ROW, {**ROW, "state": "DEAD", "pid": 51})) == actors("w_0")


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 401 Unauthorized\r\n\r\nUnauthorized: Missing authentication token",
        answer(ROW, total=20_000),
        answer(ROW, status="500 Oh"),
        answer({**ROW, "pid": "50"}),
        answer(ROW)[:-4],
        b"HTTP/1.0 200 OK\r\n\r\n" + b"[" * 100_000,
        b"",
    ],
)
def test_an_answer_that_is_refused_cut_off_or_of_another_form_tells_nothing(said: bytes) -> None:
    assert ray_actors.told(said) == []


def test_names_that_the_dashboard_tells_number_workers_of_this_node(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    for pid in (50, 51):
        workers.start(pid)
    elsewhere = Actor("01000000", "Trainer", "w_2", "6b" * 28, 50)
    monkeypatch.setattr(ray_actors, "actors", lambda *_: [*actors("w_0", "w_1"), elsewhere])
    assert workers.ranks(50, 51) == {50: 0, 51: 1}


def test_only_a_dashboard_of_the_same_session_user_and_network_is_asked(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def ask(_pid: int, port: int) -> bytes:
        asked.append(port)
        return answer(ROW)

    monkeypatch.setattr(ray_actors, "_asked", ask)
    workers.start(50, uid=7)
    row = "   0: 0100007F:%04X 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 %d 1\n"
    for number, (session, uid, net) in enumerate(
        [(str(workers.session), 7, "net:[1]"), ("/tmp/other", 7, "net:[1]"), (str(workers.session), 8, "net:[1]"),
         (str(workers.session), 7, "net:[2]")]
    ):  # fmt: skip
        pid, port = 60 + number, 8265 + number
        words = ["python", "/venv/ray/dashboard/dashboard.py", "--port=8265", "--port-retries=50"]
        folder = workers.proc.add(pid, argv=[*words, f"--session-dir={session}"], uid=uid)
        workers.proc.link(folder / "ns" / "net", net)
        (folder / "net").mkdir()
        (folder / "net" / "tcp").write_text("head\n" + row % (port, 900 + number) + row % (44217, 950 + number))
        for inode in (900 + number, 950 + number):
            workers.proc.link(folder / "fd" / str(inode), f"socket:[{inode}]")
    workers.proc.link(workers.proc.root / "50" / "ns" / "net", "net:[1]")
    assert ray_actors.actors(50, str(workers.session), str(workers.proc.root)) == actors("w_0")
    assert asked == [8265]
