"""Ranks by what others have written: dumps of flight recorders that lie there, and when they are looked for."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from collectors.node.ranks import written as module
from collectors.node.ranks.recorder_rank import ranks_by_dumps
from collectors.node.ranks.written import WrittenRank, WrittenRanks
from tests.support.fake_proc import FakeProc

MAIN = {50: 0x7F7EAB86B740, 51: 0x7F0000001000}
"""The block of each process's main thread."""


class Writers:
    """Processes whose recorders write into one folder."""

    def __init__(self, folder: Path) -> None:
        self.proc = FakeProc(folder / "proc")
        self.stem = folder / "dumps" / "fr_rank_"
        self.stem.parent.mkdir()
        for pid, block in MAIN.items():
            self.start(pid, block)

    def start(self, pid: int, block: int) -> None:
        begin = block - block % 4096
        own = self.proc.add(pid, env={"TORCH_FR_DUMP_TEMP_FILE": str(self.stem)}, uid=os.getuid())
        code, data = (
            f"{begin - 8192:x}-{begin - 4096:x} r-xp 0 08:01 7 /lib",
            f"{begin:x}-{begin + 8192:x} rw-p 0 00:00 0",
        )
        (own / "maps").write_text(f"{code}\n{data} \n")

    def dump(self, rank: int, thread: int, *, json: bool = False, at: float = 1000.0) -> None:
        said = b'"thread_id":"%d"' % thread if json else b"q\x1dX\t\0\0\0thread_idq\x1eX\x0f\0\0\0%dq\x1fX" % thread
        file = Path(f"{self.stem}{rank}")
        file.write_bytes(b"\x80\x02}q\0(X\x07\0\0\0entries" + said + b"record_id")
        os.utime(file, (at, at))

    def ranks(self, *pids: int, started: float = 900.0) -> dict[int, int]:
        return ranks_by_dumps(dict.fromkeys(pids, started), str(self.proc.root))


@pytest.fixture
def writers(tmp_path: Path) -> Writers:
    return Writers(tmp_path)


@pytest.mark.parametrize("json", [False, True])
def test_a_dump_is_of_the_process_in_which_its_thread_is(writers: Writers, json: bool) -> None:
    writers.dump(7, MAIN[50], json=json)
    writers.dump(3, MAIN[51] + 4096, json=json)
    assert writers.ranks(50, 51) == {50: 7, 51: 3}


def test_a_dump_of_an_earlier_run_and_one_of_a_stranger_number_nobody(writers: Writers) -> None:
    writers.dump(7, MAIN[50], at=800.0)
    writers.dump(3, 0x7E0000001000)
    assert writers.ranks(50, 51) == {}


def test_processes_that_were_forked_share_their_threads_address(writers: Writers) -> None:
    writers.start(52, MAIN[50])
    writers.dump(7, MAIN[50])
    writers.dump(3, MAIN[51])
    assert writers.ranks(50, 51, 52) == {51: 3}


def test_one_that_has_written_two_dumps_has_no_number(writers: Writers) -> None:
    writers.dump(7, MAIN[50])
    writers.dump(8, MAIN[50] + 8)
    assert writers.ranks(50) == {}


@pytest.mark.parametrize("name", ["fr_rank_", "fr_rank_3.json", "fr_rank_x", "fr_rank_123456789", "other_3"])
def test_what_is_named_otherwise_is_not_read(writers: Writers, name: str) -> None:
    writers.dump(3, MAIN[50])
    Path(f"{writers.stem}3").rename(writers.stem.with_name(name))
    assert writers.ranks(50) == {}


def test_a_link_to_another_file_and_a_pipe_are_not_waited_for(writers: Writers) -> None:
    os.mkfifo(f"{writers.stem}3")
    Path(f"{writers.stem}4").symlink_to("/proc/self/mem")
    assert writers.ranks(50, started=0.0) == {}


JOB = """\
import sys, torch, torch.distributed as dist
dist.init_process_group("gloo", init_method="file://" + sys.argv[1] + "/store", rank=int(sys.argv[2]), world_size=2)
dist.all_reduce(torch.ones(4))
with open(sys.argv[1] + "/dump_" + sys.argv[2], "wb") as dump:
    dump.write(torch._C._distributed_c10d._dump_fr_trace(True, True, False))
print("written", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def real(tmp_path: Path) -> Iterator[list[int]]:
    """Two real ranks, by pid in the order of their ranks, whose recorders have written their dumps."""
    env = {**os.environ, "TORCH_FR_DUMP_TEMP_FILE": f"{tmp_path}/dump_", "TORCH_FR_BUFFER_SIZE": "100"}
    jobs = [
        subprocess.Popen(
            [sys.executable, "-c", JOB, str(tmp_path), str(rank)],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for rank in range(2)
    ]
    try:
        for job in jobs:
            assert job.stdout is not None
            assert job.stdout.readline() == b"written\n"
        yield [job.pid for job in jobs]
    finally:
        for job in jobs:
            job.kill()
            job.communicate()


@pytest.mark.torch
def test_dumps_that_torch_has_written_number_its_processes(real: list[int]) -> None:
    assert ranks_by_dumps(dict.fromkeys(real, 0.0)) == {real[0]: 0, real[1]: 1}


def test_it_looks_with_growing_pauses_anew_at_others_and_believes_the_recorder_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[frozenset[int]] = []

    def of_ray(_proc: str, pids: frozenset[int]) -> dict[int, int]:
        looks.append(frozenset(pids))
        return dict.fromkeys(pids, len(looks))

    monkeypatch.setattr(module, "ranks_of", of_ray)
    monkeypatch.setattr(module, "ranks_by_dumps", lambda started, _proc: {pid: 9 for pid in started if pid == 51})
    state = WrittenRanks("/proc")
    for moment in (0.0, 1.0, 1.5, 3.0, 4.1):
        state.look({50: 0.0}, moment)
    assert (len(looks), state.told) == (3, {50: WrittenRank(3, "ray")})
    state.look({51: 0.0}, 4.2)
    assert looks[-1] == {51}
    assert state.told == {51: WrittenRank(9, "recorder")}
    state.look({}, 4.3)
    assert len(looks) == 4
