"""Whatever the chunks, the same events; whatever the bytes, no exception."""

from __future__ import annotations

import itertools

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collectors.node.logs import parser
from collectors.node.logs.parser import LogParser
from collectors.samples.logs import CommProgress, LogEvent
from tests.support.logs import LOGS, NOW

FILES = [path.read_bytes() for path in sorted(LOGS.glob("*.txt"))]
COLL = (
    b"[rank%d]: n1:%d:7 [%d] NCCL INFO AllReduce: opCount %x sendbuff 0x1 recvbuff 0x2 count 4 datatype 7 op 0 root 0"
    b" comm 0x5%d [nranks=2] stream 0x9\n"
)
NCCL = b"".join(COLL % (rank, 70 + rank, rank, count, rank) for count in range(8) for rank in range(2))
INIT = b"n1:70:7 [0] NCCL INFO comm 0x50 rank 0 nranks 2 cudaDev 0 busId 1000 commId 0x77 - Init START\n"
PIECES = [
    b"\r", b"\r\n", b"\n", b"[rank1]: ", b"3: ", b"a" * 200, b"=" * 60 + b"\n", b"\x1b[31m", b"\xff\xfe\x00",
    b"Traceback (most recent call last):\n", b'  File "a.py", line 3, in f\n', b"ValueError: x\n",
    b"[E1121 00:12:20.8 ProcessGroupNCCL.cpp:1] Watchdog caught collective", b"Fatal Python error: x\n",
    b"Failures:\n[1]:\n  rank      : 1\n", b"n1:70:7 [0] a.cc:1 NCCL WARN\n", INIT, NCCL[:400],
    b"NVRM: Xid (PCI:0000:5f:00): 79, pid=1\n", b'{"log":"x\\n","time":"2026-11-21T00:00:00Z"}\n',
    b"terminate called after throwing an instance of 'x'\n", b"NCCL INFO AllReduce: opCount 12 DONE\n",
]  # fmt: skip

Result = tuple[list[LogEvent], list[CommProgress], int]


def run(data: bytes, cuts: list[int]) -> Result:
    log = LogParser("log", now=NOW)
    events: list[LogEvent] = []
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    for start, end in itertools.pairwise(edges):
        events += log.feed(data[start:end])
    events += log.close()
    return events, log.collectives.known(), log.line


messy = st.lists(
    st.one_of(st.sampled_from(PIECES), st.sampled_from(FILES), st.just(NCCL), st.binary(max_size=40)), max_size=12
).map(b"".join)
cuts = st.lists(st.integers(0, 1 << 20), max_size=12)


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(messy, cuts)
def test_chunks_change_nothing(data: bytes, where: list[int]) -> None:
    assert run(data, where) == run(data, [])


def test_a_line_of_many_megabytes_is_cut() -> None:
    log = LogParser("log", now=NOW)
    events: list[LogEvent] = []
    for _ in range(3):
        events += log.feed(b"x" * parser.PIECE)
    events += log.feed(b" tail of it\n[rank1]: NVRM: Xid (PCI:0000:5f:00): 79, x\n")
    events += log.close()
    assert [(event.kind, event.line) for event in events] == [("kernel.xid", 2)]


def test_a_million_repeats_are_few_events() -> None:
    line = b"n1:70:7 [0] net.cc:1 NCCL WARN NET/IB : Got completion from peer 10.0.0.%d<5> with error 12, opcode 1\n"
    events, _, _ = run(b"".join(line % (n % 250) for n in range(3000)), [])
    assert len(events) == 10, "the first eight, the 10th and the 100th"


def test_what_introduces_a_traceback_is_read_whatever_the_chunks() -> None:
    """A block may have collectives alone, which are counted and no events."""
    raised = b'Traceback (most recent call last):\n  File "a.py", line 3, in f\nValueError: x\n'
    data = b"ERROR cannot read a shard, going on\n" + NCCL + raised
    for cuts in ([len(data) - len(raised)], [36, len(data) - len(raised)], [36]):
        assert run(data, cuts) == run(data, [])
