"""Stacks that somebody saved as text, and who holds up whom by them."""

from __future__ import annotations

from pathlib import Path

from hangtop.diagnosis.finding import Verdict
from hangtop.diagnosis.verdict.verdict import diagnose
from hangtop.session.folder import files_session

WAITS = """#0  0x00007f1 in sched_yield () from /lib64/libc.so.6
#1  0x00007f2 in cuStreamSynchronize () from /usr/lib/libcuda.so.1
#2  0x00007f3 in at::native::_local_scalar_dense_cuda (self=...) from libtorch_cuda.so
"""
SPINS = """#0  __sched_yield
#1  ncclLocalOpAppend(ncclComm*, ncclProxyConnector*, ncclProxyOp*)
#2  ncclProxySaveOp(ncclComm*, ncclProxyOp*, bool*)
#3  ncclGroupEndInternal(ncclSimInfo_v22200*)
#4  ncclAllReduce
"""


def judged(path: Path) -> Verdict:
    return diagnose(files_session([path]).job())


def test_a_rank_that_spins_in_nccls_proxy_queue_is_named(tmp_path: Path) -> None:
    saved = tmp_path / "stacks.txt"
    saved.write_text(f"# gdb -p 700 -batch -ex bt   (rank 0)\n{WAITS}# eu-stack -p 8841   (rank 1)\nTID 8841:\n{SPINS}")
    first = judged(saved).findings[0]
    assert (first.kind, first.ranks) == ("nccl_proxy_lost", (1,))


def test_py_spys_text_of_all_ranks_names_the_odd_one(tmp_path: Path) -> None:
    waiting = "    all_reduce (torch/distributed/distributed_c10d.py:3252)\n    step (train.py:29)\n"
    reading = "    wait (threading.py:302)\n    read_shard (data.py:88)\n    step (train.py:25)\n"
    text = ""
    for rank in range(4):
        frames = reading if rank == 2 else waiting
        text += f'Process {900 + rank}: python train.py\nThread {900 + rank} (idle): "MainThread"\n{frames}\n'
    saved = tmp_path / "all.txt"
    saved.write_text(text)
    verdict = judged(saved)
    assert (verdict.outcome, verdict.findings[0].ranks) == ("hung", (2,))
    assert "read_shard (data.py:88)" in verdict.findings[0].summary
