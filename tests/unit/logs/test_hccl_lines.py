"""HCCL's lines: in plog files, and in what torch_npu raises."""

from __future__ import annotations

import time

import pytest

from collectors.samples.values import Value
from tests.support.logs import kinds, only, parse

GROUP = "10.0.0.1%enp_60000_0_17"
FAILED = "[task_exception_handler.cc:908] [11][TaskExecStage][Timeout][Host]Task run failed, "
OLDER = "[task_exception_handler.cc:541][11]Task from HCCL run failed, "

PLOG: dict[str, tuple[str, str, dict[str, Value]]] = {
    "operation": (
        FAILED + f"base information is streamID:[2], taskID[21], tag[AllReduce_{GROUP}], AlgType(level 0-1-2):[ring].",
        "hccl.timeout", {"op": "AllReduce"},
    ),
    "group": (
        FAILED + f"groupRank information is group:[{GROUP}], user define information[], rankSize[4], rankId[2].",
        "hccl.timeout", {"group": GROUP, "size": 4, "group_rank": 2},
    ),
    "no time-out": (
        OLDER + f"base information is streamID:[2], tag[Broadcast_{GROUP}].",
        "hccl.error", {"op": "Broadcast"},
    ),
    "connection": (
        "[x.cc:813] [12][Wait][LinkEstablish]wait socket establish timeout, role[0] rank[3] timeout[120 s]",
        "hccl.connect_timeout", {"group_rank": 3, "seconds": 120, "code": "EI0006"},
    ),
    "heartbeat": (
        "[x.cc:6][1]Cluster Exception Location[IP/ID]:[10.0.0.2/5], ExceptionType:[Heartbeat Lost Occurred], Possible",
        "hccl.lost", {"place": "10.0.0.2/5", "what": "Heartbeat Lost Occurred"},
    ),
    "anything": ("[transport_manager.cc:954] [11]call trace: hcclRet -> 4", "hccl.error", {}),
}  # fmt: skip


@pytest.mark.parametrize("name", PLOG)
def test_a_plog_s_errors(name: str) -> None:
    text, kind, data = PLOG[name]
    event = only(parse(f"[ERROR] HCCL(2111667,train):2025-10-24-11:18:29.597.044 {text}\n"), kind)
    assert data.items() <= event.data.items()
    assert event.pid == 2111667
    assert event.at == pytest.approx(time.mktime((2025, 10, 24, 11, 18, 29, 0, 0, -1)) + 0.597, abs=0.01)


def test_a_plog_s_other_lines() -> None:
    head = "[INFO] HCCL(7,train):2025-10-24-11:16:52.724.374 [op_base.cc:1292] [7]"
    entry = (
        f"Entry-HcclCommInitRootInfoInner:ranks[4], rank[2], rootinfo: host ip[10.0.0.1] identifier[{GROUP}], x[2]\n"
    )
    event = only(parse(head + entry + head + "hello\n"), "hccl.init")
    assert event.data == {"size": 4, "group_rank": 2, "group": GROUP}


def test_what_torch_npu_raises_tells_the_job_s_rank() -> None:
    events = parse(
        "[ERROR] 2025-10-11-15:09:34 (PID:2969, Device:0, RankID:101) ERR00100 PTA call acl api failed.\n"
        "EI0002: [PID: 2969] 2025-10-11-15:09:34.713.335 The wait execution of the Notify register times out. Reason: "
        "The Notify register has not received the Notify record from remote rank: [24]. base information: [taskID[3],"
        " tag[AllReduce_group_name_1654], AlgType:[ring].]. task information: [remote rank:[24]]. group information:"
        " [group:[group_name_1654], user define information[Unspecified], rankSize[32], rankId[25]]\n"
    )
    assert kinds(events) == ["hccl.rank", "hccl.timeout"]
    assert (events[0].rank, events[0].pid, events[1].pid, events[1].host) == (101, 2969, 2969, "")
    assert {"op": "AllReduce", "group": "group_name_1654", "size": 32, "group_rank": 25, "remote": 24}.items() <= (
        events[1].data.items()
    )


def test_a_code_behind_a_rank_s_label() -> None:
    event = only(parse("[rank1]: EI0006: [PID: 12] 2025-04-08-18:07:20.444.436 Getting socket times out.\n"),
                 "hccl.connect_timeout")  # fmt: skip
    assert (event.rank, event.pid, event.data["message"]) == (1, 12, "Getting socket times out.")
    assert (
        only(parse("EJ0001: [PID: 12] Failed to initialize the HCCP process.\n"), "hccl.error").data["code"] == "EJ0001"
    )


def test_a_runner_that_got_no_communicator() -> None:
    line = "[error] [15] [hccl_runner.cpp:1] R:0 HcclCommInitRootInfo fail, error:2, rank:1, x\n"
    event = only(parse(line), "nccl.failed")
    assert (event.rank, event.data) == (1, {"function": "HcclCommInitRootInfo", "error": "error:2"})
