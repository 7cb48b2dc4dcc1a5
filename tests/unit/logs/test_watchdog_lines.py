"""The watchdog's wordings from torch 1.10 to 2.14."""

import pytest

from collectors.samples.values import Value
from tests.support.logs import kinds, only, parse

TIMEOUTS: dict[str, tuple[str, dict[str, Value], int | None]] = {
    "1.10": (
        (
            "[E ProcessGroupNCCL.cpp:485] [Rank 6] Watchdog caught collective operation timeout: WorkNCCL(OpType"
            "=ALLREDUCE, Timeout(ms)=1800000) ran for 1802246 milliseconds before timing out."
        ),
        {"op": "ALLREDUCE", "timeout_ms": 1800000, "ran_ms": 1802246, "group_rank": 6},
        None,
    ),
    "2.0": (
        (
            "[E ProcessGroupNCCL.cpp:828] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=42,"
            " OpType=BROADCAST, Timeout(ms)=1800000) ran for 1800116 milliseconds before timing out."
        ),
        {"seq": 42, "op": "BROADCAST"},
        None,
    ),
    "2.2": (
        (
            "[rank2]:[E ProcessGroupNCCL.cpp:754] [Rank 2] Watchdog caught collective operation timeout:"
            " WorkNCCL(SeqNum=3, OpType=COALESCED, NumelIn=18446744073709551615, NumelOut=18446744073709551615,"
            " Timeout(ms)=600000) ran for 600410 milliseconds before timing out."
        ),
        {"numel_in": -1, "numel_out": -1, "op": "COALESCED"},
        2,
    ),
    "2.5": (
        (
            "[rank31]:[E1121 01:35:13.955775341 ProcessGroupNCCL.cpp:607] [PG ID 2 PG GUID 3(dp_cp) Rank 7] Watchdog"
            " caught collective operation timeout: WorkNCCL(SeqNum=2603, OpType=_ALLGATHER_BASE, NumelIn=1024,"
            " NumelOut=8192, Timeout(ms)=600000) ran for 600000 milliseconds before timing out."
        ),
        {"seq": 2603, "group": "2", "guid": "3", "group_name": "dp_cp", "group_rank": 7, "numel_out": 8192},
        31,
    ),
    "2.14": (
        (
            "[rank5]:[E1121 01:35:13.955775341 ProcessGroupNCCL.cpp:701] [PG GUID 12(mesh_tp) Rank 1] Watchdog caught"
            " collective operation timeout: WorkNCCL(SeqNum=8, OpType=ALLREDUCE, NumelIn=4, NumelOut=4,"
            " Timeout(ms)=600000) ran for 600000 milliseconds before timing out."
        ),
        {"seq": 8, "guid": "12", "group_name": "mesh_tp", "group_rank": 1},
        5,
    ),
}


@pytest.mark.parametrize("version", TIMEOUTS)
def test_timeouts(version: str) -> None:
    text, expected, rank = TIMEOUTS[version]
    event = only(parse(text + "\n"), "torch.watchdog_timeout")
    assert expected.items() <= event.data.items()
    assert event.rank == rank


STATUS: dict[str, dict[str, Value]] = {
    "[PG 1 Rank 14] Timeout at NCCL work: 15734, last enqueued NCCL work: 15735, last completed NCCL work: 15733.": {
        "work": 15734, "enqueued": 15735, "completed": 15733, "group": "1", "group_rank": 14,
    },
    "[PG 0 (default_pg) Rank 31] Exception (either an error or timeout) detected by watchdog at work: 2603, last"
    " enqueued NCCL work: 2604, last completed NCCL work: 2602.": {
        "work": 2603, "enqueued": 2604, "completed": 2602, "group_name": "default_pg",
    },
    "[PG ID 1 PG GUID 1 Rank 1]  failure detected by watchdog at work sequence id: 1 PG status: last enqueued work:"
    " 547, last completed work: -1": {"work": 1, "enqueued": 547, "completed": -1},
    "[PG ID 0 PG GUID 0(default_pg) Rank 2] failure detected by watchdog at work sequence id: 9 PG status: last"
    " enqueued work: 9, last started work: 8, last completed work: 8": {"enqueued": 9, "started": 8, "completed": 8},
    "[PG GUID 7(tp) Rank 2] failure detected by watchdog at work sequence id: 9 PG status: last enqueued work: 9, last"
    " started work: 8 (ALLREDUCE), last completed work: 7": {
        "enqueued": 9, "started": 8, "started_op": "ALLREDUCE", "completed": 7, "guid": "7", "group_name": "tp",
    },
}  # fmt: skip


@pytest.mark.parametrize("text", STATUS)
def test_status(text: str) -> None:
    event = only(parse(f"[rank3]:[E1121 01:35:13.95 ProcessGroupNCCL.cpp:1785] {text}\n"), "torch.watchdog_status")
    assert STATUS[text].items() <= event.data.items()
    assert event.rank == 3


def test_garbage_where_nothing_completed_is_left_out() -> None:
    text = "[PG 0 Rank 1] Timeout at NCCL work: 1, last enqueued NCCL work: 3, last completed NCCL work: 94072346521.\n"
    event = only(parse(text), "torch.watchdog_status")
    assert event.data["enqueued"] == 3
    assert "completed" not in event.data


def test_the_rank_inside_the_brackets_is_not_the_global_one() -> None:
    event = only(parse(TIMEOUTS["2.5"][0] + "\n"), "torch.watchdog_timeout")
    assert (event.rank, event.data["group_rank"]) == (31, 7)


def test_what_else_it_says() -> None:
    head = "[rank1]:[E1121 01:35:13.9 ProcessGroupNCCL.cpp:1495] [PG ID 0 PG GUID 0(default_pg) Rank 1] "
    received = head + "Received a dump signal due to a collective timeout from "
    events = parse(
        received + "this local rank and we will try our best to dump the debug info."
        " Last enqueued NCCL work: 5, last completed NCCL work: 4.\n"
        + received + " rank 3 and we will try our best to dump\n"
        + head + "Observed flight recorder dump signal from another rank via TCPStore.\n"
        + head + "To avoid data inconsistency, we are taking the entire process down.\n"
        "[rank0]:[F1121 01:44:00.1 ProcessGroupNCCL.cpp:1552] [PG ID 0 PG GUID 0 Rank 0] ProcessGroupNCCL's watchdog"
        " got stuck for 480 seconds without making progress in monitoring enqueued collectives.\n"
        "[rank0]:[E1121 01:44:00.2 x.cpp:1] Could not acquire GIL within 300 ms on exit, possible GIL induced hang\n"
        "[rank4]:[E1121 01:44:00.3 x.cpp:1] [Rank 4] Process group watchdog thread terminated with exception: NCCL"
        " error: remote process exited or there was a network error, NCCL version 2.19.3\n"
    )  # fmt: skip
    assert kinds(events) == [
        "torch.watchdog_status", "torch.dump_signal", "torch.dump_signal", "torch.dump_signal", "torch.taken_down",
        "torch.watchdog_stuck", "torch.gil", "nccl.version", "torch.watchdog_error",
    ]  # fmt: skip
    assert [event.data["origin"] for event in events[1:4]] == ["local", "rank", "store"]
    assert events[2].data["from_rank"] == 3
    assert events[5].data == {"seconds": 480}
    assert events[8].data["consequence"] is True


@pytest.mark.parametrize(
    "words",
    [
        "Warning: WARNING: destroy_process_group() was not called before program exit, which can leak resources.",
        "Warning: WARNING: process group has NOT been destroyed before we destruct ProcessGroupNCCL. On normal exit",
        "WARNING: process group has NOT been destroyed before it is being destructed. On normal program exit, the",
    ],
    ids=["2.7 and later", "2.5", "2.4"],
)
def test_a_program_that_ends_and_leaves_its_groups_alone(words: str) -> None:
    (event,) = parse(f"[rank1]:[W1126 04:36:50.757374454 ProcessGroupNCCL.cpp:1575] {words}\n")
    assert (event.kind, event.rank) == ("torch.program_exit", 1)


def test_the_stack_of_the_failed_collective() -> None:
    head = "[rank1]:[E1121 01:35:13.9 ProcessGroupNCCL.cpp:632] Stack trace of the failed collective: \n"
    text = head + (
        "#0 all_reduce from /opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py:2806\n"
        "#1 wrapper from /opt/venv/lib/python3.11/site-packages/torch/distributed/c10d_logger.py:81\n"
        "#2 train_step from /opt/train/main.py:88\n#3 <module> from /opt/train/main.py:120\n\n"
    )
    # the frames carry no label, so they are those of the stream without one
    event = only(parse(text.replace("[rank1]:", "")), "torch.failed_collective")
    assert event.data["frame"] == "/opt/train/main.py:88 in train_step"
