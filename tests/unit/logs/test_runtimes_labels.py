"""Labels and last words of runtimes that number their own processes: Legion, GASNet, Determined; batch systems."""

from __future__ import annotations

import pytest

from collectors.node.logs.lines import labels, whose
from tests.support.logs import kinds, only, parse

STACK = "#6  <signal handler called>\n#7  0x00007ffff7a4b8f7 in raise () from /lib64/libc.so.6\n"


@pytest.mark.parametrize(
    ("text", "rank"),
    [
        ("[7] #3  0x00007f in f () from /lib/x.so", "7"),
        ('[7] Thread 9 (Thread 0x7efc (LWP 12) "x"):', "7"),
        ("[7 - 7feae62af700]  365.765712 {6}{realm}: invalid event", "7"),
        ("3f2a91bc [rank=7] || INFO: step 3", "7"),
    ],
)
def test_a_rank_that_a_runtime_numbers(text: str, rank: str) -> None:
    found = labels.label(text)
    assert found is not None
    assert found[1:3] == ("rank", rank)


@pytest.mark.parametrize("text", ["[7] is the answer", "[7 - 9] steps", "if a || b", "[12 - abc] 3 {x}"])
def test_what_only_looks_like_a_label(text: str) -> None:
    assert labels.label(text) is None


def test_a_signal_that_a_runtime_reports() -> None:
    event = only(parse("Signal 11 received by node 5, process 109319 (thread 20002c70) - obtaining backtrace\n"),
                 "process.signal")  # fmt: skip
    assert (event.rank, event.data["signal"]) == (5, "SEGV")
    assert whose.rank_of("*** FATAL ERROR (proc 20): in f()") == 20
    assert kinds(parse("Packet 11 received by node 5, process 12\n")) == []


def test_a_program_is_no_host() -> None:
    """The C library names the program in front of the place of an assertion."""
    event = only(parse("s3d.x: /src/a.cc:12: int f(int): Assertion `x == 0' failed.\n"), "process.signal")
    assert (event.host, event.data["signal"]) == ("", "ABRT")
    far = only(parse("n7.gpu: s3d: /src/a.cc:12: int f(int): Assertion `x == 0' failed.\n"), "process.signal")
    assert far.host == "n7.gpu"


def test_torchrun_s_block_behind_determined_s_label() -> None:
    front = "[2026-11-22T09:22:31.405193Z] 8de2ca81 || "
    block = (
        "Root Cause (first observed failure):\n[0]:\n  time      : 2026-11-22_09:22:31\n  host      : n7\n"
        "  rank      : 3 (local_rank: 1)\n  exitcode  : 1 (pid: 36)\n  error_file: <N/A>\n"
        "  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html\n" + "=" * 60 + "\n"
    )
    event = only(parse("".join(front + line + "\n" for line in block.splitlines())), "elastic.failure")
    assert (event.data["failed_rank"], event.host) == (3, "n7")


def test_a_batch_system_refuses() -> None:
    refused = only(
        parse("qsub: Job exceeds queue resource limits MSG=cannot satisfy max walltime\n"), "launcher.refused"
    )
    assert refused.data["launcher"] == "batch"
    assert kinds(parse("qsub: waiting for job 12 to start\nqsub: job 12 ready\n")) == []
    assert [
        e.kind for e in parse("04/18/2026 22:55:25;0008;PBS_Server.12;Job;70.h;Job deleted at request of root@h\n")
    ] == ["slurm.cancelled"]
    assert kinds(parse("04/18/2026 22:55:25;0008;PBS_Server.12;Job;70.h;Job Run at request of root@h\n")) == []


RECORDS = (
    "[rank3]:[W102 08:14:05.1 x.cpp:9] lost",
    "[2026-01-02 08:14:05,117] [INFO] [launch.py:9:main] on",
    "[E102 08:14:05.1 x.cpp:9] lost",
)


@pytest.mark.parametrize("host", ["v100x4-2", "gpu3", "trainer"])
@pytest.mark.parametrize("record", RECORDS)
def test_what_pdsh_puts_in_front_of_a_record_is_a_host_whatever_it_is_called(host: str, record: str) -> None:
    assert labels.label(f"{host}: {record}") == (len(host) + 2, "host", host, "")
    assert labels.label(f"localhost: {record}") == (11, "tag", "", "")
    for level in ("ERROR", "RuntimeError", "stderr"):
        found = labels.label(f"{level}: {record}")
        assert found is None or found[1] != "host"


def test_a_rank_behind_the_name_of_this_machine() -> None:
    lost = "[rank3]:[W102 08:14:05.1 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=9): Connection reset"
    event = only(parse(f"localhost: {lost} by peer\n"), "torch.store_lost")
    assert (event.rank, event.host) == (3, "")
