"""COLL lines summed up: counted, joined by commId, never by pointer."""

from tests.support.logs import progress


def coll(pid: int, op: str, count: int) -> str:
    return (
        f"n1:{pid}:{pid + 1} [0] NCCL INFO {op}: opCount {count:x} sendbuff 0x7f10 recvbuff 0x7f20 count 4096"
        " datatype 7 op 0 root 0 comm 0xaa [nranks=2] stream 0x55\n"
    )


def init(pid: int, comm: str, rank: int, comm_id: str) -> str:
    head = f"n1:{pid}:{pid + 1} [0] NCCL INFO ncclCommInitRank comm {comm} rank {rank} nranks 2 cudaDev 0"
    return f"{head} nvmlDev 0 busId 1000 commId {comm_id} - Init START\n"


def test_the_count_is_hexadecimal_and_the_join_goes_by_comm_id() -> None:
    found = progress(init(10, "0xaa", 0, "0x99") + init(20, "0xbb", 1, "0x99") + coll(10, "AllReduce", 0x1A))
    (only,) = found
    assert (only.comm, only.rank, only.size, only.op, only.op_count) == ("0x99", 0, 2, "AllReduce", 26)
    assert (only.elements, only.dtype, only.pid, only.line) == (4096, "float32", 10, 3)


def test_one_pointer_in_two_processes_is_two_communicators() -> None:
    text = init(10, "0xaa", 0, "0x1") + init(20, "0xaa", 1, "0x2") + coll(10, "AllReduce", 3)
    found = progress(text + coll(20, "Broadcast", 4) + coll(20, "AllGather", 5))
    assert {(p.comm, p.rank, p.op, p.launched) for p in found} == {
        ("0x1", 0, "AllReduce", 1),
        ("0x2", 1, "AllGather", 2),
    }


def test_a_count_that_stays_zero_is_counted_by_lines() -> None:
    (only,) = progress(init(10, "0xaa", 0, "0x1") + coll(10, "AllReduce", 0) * 1234)
    assert (only.op_count, only.launched) == (0, 1234)


def test_a_pointer_used_again_begins_anew() -> None:
    text = init(10, "0xaa", 0, "0x1") + coll(10, "AllReduce", 7) * 5
    (only,) = progress(text + init(10, "0xaa", 1, "0x2") + coll(10, "Broadcast", 0) * 2)
    assert (only.comm, only.rank, only.op, only.launched) == ("0x2", 1, "Broadcast", 2)


def test_sends_do_not_hide_collectives() -> None:
    (only,) = progress(coll(10, "Send", 1) + coll(10, "AllReduce", 2) + coll(10, "Recv", 3))
    assert (only.op, only.launched) == ("AllReduce", 1)


def test_labels_and_times_in_front() -> None:
    line = coll(10, "AllReduce", 9).rstrip()
    (first,) = progress(f"[rank3]: {line}\n")
    assert first.global_rank == 3
    (second,) = progress(f"2026-11-20T02:47:00.5Z 12: {line}\n2026-11-20T02:47:01.5Z 12: {line}\n")
    assert (second.global_rank, second.launched) == (12, 2)
    assert second.at is not None
    (third,) = progress(f"(RayTrainWorker pid=615, ip=10.72.7.6) {line}\n")
    assert (third.host, third.pid) == ("n1", 10)


def test_lines_left_out_are_admitted() -> None:
    from collectors.node.logs.parser import LogParser

    parser = LogParser("x")
    parser.feed(init(10, "0xaa", 0, "0x1").encode())
    parser.gap()
    parser.feed(b"half a line\n" + coll(10, "AllReduce", 9).encode())
    (only,) = parser.collectives.known()
    assert (only.comm, only.line) == ("0x1", 0)
