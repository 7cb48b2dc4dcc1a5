"""A folder of any mix becomes a job: who is which rank, what is one communicator, what was recognised."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectors.samples.logs import CommProgress
from hangtop.diagnosis.finding import Verdict
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.verdict.verdict import diagnose
from hangtop.session.folder.joining import same_communicators
from hangtop.session.folder.session import FilesSession

FIXTURES = Path(__file__).parent.parent.parent / "fixtures"
NOW = 1795230000.0

COLL = (
    "{host}:{pid}:9 [0] NCCL INFO AllReduce: opCount {count:x} sendbuff 0x1 recvbuff 0x2 count 4 datatype 7 op 0 root 0"
    " comm 0x{pid}aa [nranks=4] stream 0x9\n"
)
INIT = (
    "{host}:{pid}:9 [0] NCCL INFO ncclCommInitRank comm 0x{pid}aa rank {rank} nranks 4 cudaDev 0 nvmlDev 0 busId 1000"
    " commId 0x77 - Init {phase}\n"
)


def judged(*paths: Path) -> tuple[Verdict, Job, FilesSession]:
    session = FilesSession(paths, now=NOW)
    job = session.job()
    return diagnose(job), job, session


def nccl_log(rank: int, last: int) -> str:
    where = {"host": f"n{rank // 2}", "pid": 100 + rank, "rank": rank}
    lines = [INIT.format(**where, phase="START"), INIT.format(**where, phase="COMPLETE")]
    lines += [COLL.format(**where, count=count) for count in range(last + 1)]
    return "".join(lines)


def kinds(contents: FilesSession) -> dict[str, str]:
    return {Path(file.name).name: file.kind for file in contents.files}


def test_a_rank_behind_in_its_nccl_log(tmp_path: Path) -> None:
    for rank in range(4):
        (tmp_path / f"nccl.n{rank // 2}.{100 + rank}.log").write_text(nccl_log(rank, 7713 if rank == 3 else 7714))
    verdict, job, _ = judged(tmp_path)
    assert verdict.outcome == "hung"
    assert verdict.findings[0].ranks == (3,)
    assert verdict.findings[0].nodes == ("n1",)
    assert job.world_size == 4
    assert {rank.rank: rank.node for rank in job.ranks} == {0: "n0", 1: "n0", 2: "n1", 3: "n1"}


def test_the_same_in_one_merged_log(tmp_path: Path) -> None:
    lines = [nccl_log(rank, 300 if rank == 1 else 301).splitlines(keepends=True) for rank in range(4)]
    merged = "".join(line for step in range(310) for own in lines for line in own[step : step + 1])
    (tmp_path / "slurm-99.out").write_text(merged)
    verdict, _, _ = judged(tmp_path)
    assert (verdict.outcome, verdict.findings[0].ranks) == ("hung", (1,))
    (tmp_path / "slurm-99.out").write_text(merged + "Training completed.\n")
    assert judged(tmp_path)[0].outcome == "healthy", "a finished run has no mismatch"


def test_a_healthy_nccl_log_raises_no_alarm(tmp_path: Path) -> None:
    for rank in range(4):
        (tmp_path / f"rank{rank}.log").write_text(
            nccl_log(rank, 500)
            + f"n{rank // 2}:{100 + rank}:9 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so\n"
            + "UserWarning: The given NumPy array is not writable\nstep 500 loss 2.1 error 0.01\n"
        )
    verdict, _, _ = judged(tmp_path)
    assert verdict.outcome in ("unknown", "healthy")
    assert not verdict.findings


def test_flight_recorder_dumps() -> None:
    paths = sorted((FIXTURES / "recorder").glob("gloo_hang_*"))
    verdict, _, contents = judged(*paths)
    assert verdict.outcome == "hung"
    assert verdict.findings[0].ranks == (3,)
    assert set(kinds(contents).values()) == {"flight recorder dump"}


@pytest.mark.parametrize(
    ("names", "outcome", "kind", "ranks"),
    [
        ("dist_op_DETAIL", "hung", "collective_mismatch", (1,)),
        ("dist_shape_DETAIL", "hung", "collective_size_mismatch", (1,)),
        ("dist_missing_DETAIL", "hung", "collective_mismatch", (1,)),
        ("dist_monbar_DETAIL", "hung", "collective_mismatch", (1,)),
        ("record_tee", "crashed", "gpu_out_of_memory", (1,)),
        ("worker_killed", "crashed", "rank_crashed", (1,)),
        ("segv", "crashed", "rank_crashed", (1,)),
        ("chained", "crashed", "rank_crashed", (1,)),
        ("restart", "crashed", "rank_crashed", (0,)),
        ("spawn", "crashed", "rank_crashed", (1,)),
        ("rdzv_sig_SIGKILL", "crashed", "rank_killed", (1,)),
        ("rdzv_port_in_use_rank0", "crashed", "address_in_use", (0,)),
        ("rdzv_missing_client_rank0", "crashed", "store_timeout", (1,)),
        ("ddp_unused", "crashed", "unused_parameters", (0, 1)),
        ("two_nodes_0 two_nodes_1", "crashed", "rank_crashed", (1,)),
    ],
)
def test_recorded_runs(names: str, outcome: str, kind: str, ranks: tuple[int, ...]) -> None:
    verdict, _, _ = judged(*(FIXTURES / "logs" / f"{name}.txt" for name in names.split()))
    assert (verdict.outcome, verdict.findings[0].kind, verdict.findings[0].ranks) == (outcome, kind, ranks)
    assert all(":" in evidence.source for evidence in verdict.findings[0].evidence)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("mismatch", ("collective_mismatch", (12, 13), "possible")),
        ("incomplete", ("rank_missing", (21,), "likely")),
    ],
)
def test_a_saved_report_of_ras_names_the_ranks_that_are_behind_or_silent(
    name: str, told: tuple[str, tuple[int, ...], str]
) -> None:
    verdict, _, _ = judged(FIXTURES / "ras" / f"{name}.txt")
    assert [(finding.kind, finding.ranks, finding.certainty) for finding in verdict.findings] == [told]


def test_a_mix_of_tool_outputs_is_recognised(tmp_path: Path) -> None:
    (tmp_path / "node1").mkdir()
    node = tmp_path / "node1"
    (node / "dmesg.txt").write_text(
        "[   12.345678] NVRM: Xid (PCI:0000:5f:00): 79, pid=1, GPU has fallen off the bus.\n"
    )
    (node / "ras.txt").write_text(
        "NCCL version 2.26.2\n\nJob summary\n===========\n\nCommunicators... (0.00s)\n=============\n\n"
        "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n"
        "    #  in group  per comm  per node  per comm  in group\n"
        "    0         1         1         4         4         4   RUNNING      OK\n"
    )
    (node / "spy.txt").write_text("Process 7: python x.py\nPython v3.11.7\n\nThread 7 (idle)\n    f (x.py:1)\n")
    (node / "core.4711").write_bytes(b"\x7fELF" + bytes(4096))
    (node / "empty.log").write_bytes(b"")
    verdict, _, contents = judged(tmp_path)
    assert kinds(contents) == {
        "core.4711": "",
        "dmesg.txt": "log",
        "empty.log": "empty",
        "ras.txt": "NCCL RAS report",
        "spy.txt": "stacks",
    }
    assert [file.why for file in contents.files if not file.kind] == ["binary, and no kind that is known"]
    assert "gpu_lost" in {finding.kind for finding in verdict.findings}


def test_control_codes_do_not_reach_the_reader(tmp_path: Path) -> None:
    (tmp_path / "rank_7.log").write_bytes(
        b'Traceback (most recent call last):\n  File "a.py", line 1, in f\n'
        b"ValueError: \x9b31mx \xc2\x9b2J\xe2\x80\xae\n"
    )
    _, job, _ = judged(tmp_path)
    assert all(c.isprintable() or c in "\n\t" for event in job.events for c in event.text)


def progress(comm: str, pid: int, size: int, rank: int = -1) -> CommProgress:
    return CommProgress(comm, rank, size, None, "n", pid, "AllReduce", 1, "", 5, 5, None, "x", 1)


def test_communicators_without_a_name() -> None:
    alone = [progress("n:1:0xa", 1, 2), progress("n:2:0xb", 2, 2)]
    assert {one.comm for one in same_communicators(alone, {("n", 1): 0, ("n", 2): 1})} == {"2 ranks"}
    several = [progress("n:1:0xa", 1, 2), progress("n:1:0xc", 1, 2), progress("n:2:0xb", 2, 2)]
    assert same_communicators(several, {}) == several


def test_stacks_of_every_rank_tell_who_holds_up_the_others(tmp_path: Path) -> None:
    waiting = "    all_reduce (torch/distributed/distributed_c10d.py:3252)\n    step (train.py:29)\n"
    reading = "    read_shard (data.py:88)\n    step (train.py:25)\n"
    for odd in (2, -1):
        for rank in range(4):
            frames = reading if rank == odd else waiting
            text = f'Process {900 + rank}: python train.py\nThread {900 + rank} (idle): "MainThread"\n{frames}\n'
            (tmp_path / f"rank{rank}.txt").write_text(text)
        told = [(found.kind, found.ranks) for found in judged(tmp_path)[0].findings]
        assert told[:1] == ([("rank_stuck_in_data", (2,))] if odd == 2 else [])
