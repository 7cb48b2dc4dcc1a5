"""Whole logs of runs that are over, from their text to the verdict."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hangtop.diagnosis.finding import Verdict
from hangtop.diagnosis.verdict.verdict import diagnose
from hangtop.session.folder import files_session

Judge = Callable[..., Verdict]


@pytest.fixture
def judge(tmp_path: Path) -> Judge:
    """Judges files given by name and text."""

    def verdict(**texts: str) -> Verdict:
        for name, text in texts.items():
            (tmp_path / f"{name}.log").write_text(text)
        return diagnose(files_session([tmp_path]).job())

    return verdict


def roots(verdict: Verdict) -> list[tuple[str, tuple[int, ...]]]:
    """Kinds and ranks of what is told as a cause."""
    return [(found.kind, found.ranks) for found in verdict.findings if not found.cause]


HEADER = "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"  # noqa: E501


def table(*rates: float, wrong: int = 0, whole: bool = True) -> str:
    rows = "".join(
        f"  {1 << (20 + n)}  {1 << (18 + n)}  float  sum  -1  10.0  {rate}  {rate}  {wrong}  10.0  {rate}  {rate}  0\n"
        for n, rate in enumerate(rates)
    )
    return HEADER + rows + ("# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 50.0\n" if whole else "")


def test_a_good_table_is_a_healthy_run(judge: Judge) -> None:
    assert judge(a=table(30, 60, 90, 120, 121, 118)).outcome == "healthy"


def test_a_finished_run_is_no_mismatch(judge: Judge) -> None:
    line = "n1:{pid}:9 [0] NCCL INFO AllReduce: opCount {n:x} sendbuff 0x1 recvbuff 0x1 count 4 datatype 7 op 0 root 0 comm 0x{pid} [nranks=2] stream 0x1\n"  # noqa: E501
    ahead = "".join(line.format(pid=11, n=n) for n in range(9)) + "".join(line.format(pid=12, n=n) for n in range(7))
    init = "n1:{pid}:9 [0] NCCL INFO ncclCommInitRank comm 0x{pid} rank {rank} nranks 2 cudaDev 0 busId 1 commId 0xab - Init COMPLETE\n"  # noqa: E501
    log = init.format(pid=11, rank=0) + init.format(pid=12, rank=1) + ahead
    assert roots(judge(a=log))[0][0] == "collective_mismatch"
    assert judge(a=log + table(30, 60, 90)).outcome == "healthy"


CLOSED = """Initializing distributed: GLOBAL_RANK: {rank}, MEMBER: {member}/4
Traceback (most recent call last):
  File "/w/train.py", line 10, in main
    dist.all_reduce(t)
RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.7]:21177
"""


def test_of_those_who_lost_a_peer_it_is_said_who_left_no_word(tmp_path: Path) -> None:
    lost = "[rank{0}]: RuntimeError: [/x/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.7]:21177\n"
    for local in range(4):
        folder = tmp_path / "none_4f2k" / "attempt_0" / str(local)
        folder.mkdir(parents=True)
        text = "[rank{0}]: Traceback (most recent call last):\n" + lost if local % 2 else "step 6\n"
        (folder / "stderr.log").write_text(text.format(local))
    (found,) = diagnose(files_session([tmp_path]).job()).findings
    assert (found.kind, found.ranks) == ("nccl_remote_error", ())
    assert "of ranks 0,2 there is no word" in found.summary


def test_a_rank_that_had_finished(judge: Judge) -> None:
    files = {f"rank{rank}": CLOSED.format(rank=rank, member=rank + 1) for rank in range(3)}
    verdict = judge(**files, rank3="Training completed.\n")
    assert roots(verdict) == [("rank_left_early", (3,))]


CUT = 'Traceback (most recent call last):\n  File "/w/t.py", line 9, in main\n    loss.backward()\n'


def test_why_a_batch_system_ended_it_stands_before_a_cut_traceback(judge: Judge) -> None:
    cancelled = "slurmstepd: error: *** STEP 12.0 ON n7 CANCELLED AT 2024-03-01T10:00:00 DUE TO TIME LIMIT ***\n"
    verdict = judge(a=CUT + cancelled + "srun: error: n7: tasks 2-3: Exited with exit code 1\n")
    assert (roots(verdict)[0][0], "time limit" in verdict.summary) == ("rank_killed", True)
    whole = CUT + "ValueError: bad shard\n"
    assert roots(judge(a=whole + cancelled))[0][0] == "rank_crashed"


def test_a_hang_that_the_watchdog_ended_is_a_hang(judge: Judge) -> None:
    text = "[rank{0}]:[E419 10:42:28.1 ProcessGroupNCCL.cpp:616] [Rank {0}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, Timeout(ms)=600000) ran for 600013 milliseconds before timing out.\n"  # noqa: E501
    assert judge(a=text.format(0) + text.format(1)).outcome == "hung"


def test_a_port_without_a_subnet_manager(tmp_path: Path) -> None:
    port = "CA 'mlx5_0'\n\tPort 1:\n\t\tState: {}\n\t\tPhysical state: LinkUp\n\t\tSM lid: {}\n\t\tLink layer: InfiniBand\n"  # noqa: E501
    (tmp_path / "ibstat.txt").write_text(port.format("Initializing", 0))
    found = diagnose(files_session([tmp_path]).job()).findings[0]
    assert (found.kind, found.severity, "subnet manager" in found.summary) == ("ib_port_down", "critical", True)
    (tmp_path / "ibstat.txt").write_text(port.format("Active", 1))
    assert diagnose(files_session([tmp_path]).job()).findings == ()


def test_nobody_is_blamed_where_nothing_is_wrong(judge: Judge) -> None:
    text = """I coordination_service.cc:553] /job:worker/replica:0/task:1 has connected to coordination service.
INFO 05-28 14:44:28 [shm_broadcast.py:6] No available shared memory broadcast block found in 60 seconds.
[I Wrapper.cpp:562] [Rank 0] Running collective: CollectiveFingerPrint(SequenceNumber=1277, OpType=ALLREDUCE)
step 100 loss 2.3
"""
    assert judge(a=text).findings == ()


def test_a_traceback_without_a_rank_is_of_the_one_whose_exit_is_told(judge: Judge) -> None:
    failed = "ERROR:elastic.multiprocessing.api:failed (exitcode: 1) local_rank: 1 (pid: 26) of binary: p\n"
    whole = CUT + "ValueError: bad shard\n"
    verdict = judge(a=whole + failed)
    assert roots(verdict) == [("rank_crashed", (1,))]
    assert "ValueError: bad shard" in verdict.summary
    two = whole + CUT + "KeyError: 'x'\n"  # whose is which, nobody knows
    both = judge(a=two + failed)
    assert roots(both) == [("rank_crashed", (1,))]
    several = failed + failed.replace("local_rank: 1 (pid: 26)", "local_rank: 2 (pid: 27)")
    assert roots(judge(a=two + several)) == [("rank_crashed", ())]
