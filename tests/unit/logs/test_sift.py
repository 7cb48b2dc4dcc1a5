"""Collectives counted by whole blocks: the same as when each line is read by itself, whatever the lines."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collectors.node.logs import nccl_coll_filter as sift
from collectors.node.logs.collective_counts import CommunicatorProgress
from collectors.node.logs.parser import LogParser
from collectors.samples.logs import CommProgress
from tests.support.logs import NOW

HEADS = [
    "", "[rank3]: ", "3: ", "2026-11-20T02:47:00.5Z 12: ", "2026-11-20T02:47:01.5Z 12: ", "[2026-11-20 02:47:00] ",
    "(RayTrainWorker pid=615, ip=10.72.7.6) ", "\x1b[31m", "epoch 3: 10%|###  ", "node2: ", '{"log":"',
]  # fmt: skip
TAILS = ["", " DONE", " task 0 globalrank 170", "\x1b[0m", '\\n","time":"2026-11-21T00:00:00Z"}', " comm 0x9", "\0"]


def collective(head: str, pid: int, op: str, count: int, comm: int, tail: str) -> str:
    return (
        f"{head}n1:{pid}:7 [0] NCCL INFO {op}: opCount {count:x} sendbuff 0x{count * 512:x} recvbuff 0x2 count {count}"
        f" datatype 7 op 0 root 0 comm 0x5{comm} [nranks=2] stream 0x9{tail}"
    )


def short(rank: int, count: int, tail: str) -> str:
    return f"[rank{rank}]: NCCL INFO AllReduce: opCount {count}{tail}"


def begun(pid: int, comm: int, what: str) -> str:
    head = f"n1:{pid}:7 [0] NCCL INFO ncclCommInitRank comm 0x5{comm} rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1000"
    return f"{head} commId 0x77 - {what}"


few = st.integers(0, 2)
op = st.sampled_from(["AllReduce", "AllGather", "Send", "Recv", "COLL AllReduce", "Größe"])
lines = st.one_of(
    st.builds(collective, st.sampled_from(HEADS), few, op, st.integers(0, 40), few, st.sampled_from(TAILS)),
    st.builds(collective, st.just(""), few, st.just("AllReduce"), st.integers(0, 40), few, st.just("")),
    st.builds(short, few, st.integers(0, 40), st.sampled_from(["", " DONE"])),
    st.builds(begun, few, few, st.sampled_from(["Init START", "Init COMPLETE", "Destroy COMPLETE"])),
    st.sampled_from(
        [
            begun(1, 1, "Init START").replace("nccl", "?ccl"),
            "n1:1:7 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1]",
            "loss 0.1",
            "",
            "n1:1:7 [0] a.cc:1 NCCL WARN x",
        ]
    ),
)
changes = st.lists(
    st.tuples(st.integers(0, 1 << 16), st.sampled_from([b"", b"\n", b"0", b"f", b" ", b"[", b"x", b"comm 0x5", b"A"])),
    max_size=6,
)


def one_by_one(data: bytes) -> list[CommProgress]:
    """What the progress is when every line is read by itself."""
    coll = CommunicatorProgress("log", None, NOW)
    for number, line in enumerate(data.split(b"\n"), start=1):
        coll.take_line(line, number)
    return coll.known()


def by_blocks(data: bytes) -> list[CommProgress]:
    log = LogParser("log", now=NOW)
    log.feed(data)
    log.close()
    return log.progress()


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(lines, max_size=30), changes)
def test_by_blocks_as_line_by_line(text: list[str], edits: list[tuple[int, bytes]]) -> None:
    data = bytearray("\n".join(text), "utf-8")
    for where, put in edits:
        at = where % (len(data) + 1)
        data[at : at + len(put)] = put
    assert by_blocks(bytes(data)) == one_by_one(bytes(data))


def test_a_job_s_log_needs_no_look_at_single_lines() -> None:
    text = "".join(collective("", pid, "AllReduce", count, pid, "") + "\n" for count in range(99) for pid in range(2))
    talk = "n1:1:7 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P\n"
    sifted = sift.Sifter().sift((text + talk + "loss 0.1\n").encode(), 200)
    assert (sifted.rest, sifted.odd) == ([198 + 1], [])
    assert [sifted.counts[key] for key in sorted(sifted.collectives)] == [99, 99]


def test_times_in_front_make_no_kinds_of_lines() -> None:
    text = "".join(
        f"2026-11-20T02:47:{count:02}.{count:03}Z " + collective("", 1, "AllReduce", count, 1, "") + "\n"
        for count in range(50)
    )
    assert len(sift.Sifter().sift(text.encode(), 50).counts) == 1
    (only,) = by_blocks(text.encode())
    assert (only.op_count, only.launched, only.line) == (49, 50, 50)
    assert only.at is not None
    assert round(only.at % 60, 3) == 49.049
