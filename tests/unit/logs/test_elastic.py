"""What torchrun prints and writes when a worker fails: from real runs."""

import pytest

from tests.support.logs import fixture, of_kind, only, parse


def test_each_entry_of_the_block_is_an_event() -> None:
    entries = of_kind(fixture("dist_missing_OFF"), "elastic.failure")
    assert [(e.data["failed_rank"], e.data["root"], e.data["exitcode"]) for e in entries] == [
        (0, False, -15),
        (1, False, -15),
        (2, True, 1),
    ]
    assert all(e.host == "localhost" for e in entries)
    assert entries[0].line < entries[1].line < entries[2].line
    assert all(e.at is not None for e in entries)


def test_a_recorded_traceback_in_the_block() -> None:
    events = fixture("record_tee")
    first, root = of_kind(events, "elastic.failure")
    quoted = [e.data["message"] for e in of_kind(events, "python.exception") if e.line == root.line]
    assert quoted == ["CUDA out of memory. Tried to allocate 20.00 MiB (simulated)"]
    assert (root.at or 0.0) < (first.at or 0.0), "the earlier one in time is the root, though it is printed last"


@pytest.mark.parametrize(("signal", "code"), [("KILL", -9), ("SEGV", -11), ("BUS", -7)])
def test_signals(signal: str, code: int) -> None:
    events = fixture(f"rdzv_sig_SIG{signal}")
    root = [e.data for e in of_kind(events, "elastic.failure") if e.data["root"]]
    assert [data["exitcode"] for data in root] == [code]
    assert only(events, "elastic.failed").data["exitcode"] == code


def test_a_restart() -> None:
    events = fixture("restart")
    assert only(events, "elastic.restart").data == {}
    assert [e.data["failed_rank"] for e in of_kind(events, "elastic.failure")] == [0, 1]


REPORT = (
    f"train.py FAILED\n{'-' * 60}\nFailures:\n  <NO_OTHER_FAILURES>\n{'-' * 60}\n"
    "Root Cause (first observed failure):\n[0]:\n  time      : 2026-05-12_09:27:52\n  host      : n7\n"
    "  rank      : 5 (local_rank: 1)\n  exitcode  : 1 (pid: 4156)\n"
    f"  error_file: /tmp/te/attempt_0/1/error.json\n  traceback : {{}}\n{'=' * 60}\n"
)
QUOTED = """Traceback (most recent call last):
    File "/x/stage.py", line 69, in forward
      out = layer(x)
            ^^^^^^^^
  {first}
  \n  The above exception was the direct cause of the following exception:
  \n  Traceback (most recent call last):
    File "/x/train.py", line 43, in train
      step()
  RuntimeError: stage 1 failed
              shapes: (2, 4)"""


def test_what_the_report_quotes_is_the_exception_of_its_rank() -> None:
    first = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 40.00 MiB."
    events = parse(REPORT.format(QUOTED.format(first=first)))
    failure, raised = only(events, "elastic.failure"), only(events, "python.exception")
    assert (raised.rank, raised.host, raised.at, raised.line) == (5, "n7", failure.at, failure.line)
    assert (raised.data["type"], raised.data["frame"], raised.data["signature"]) == (
        "RuntimeError",
        "/x/train.py:43 in train",
        "out_of_memory",
    )
    assert str(raised.data["message"]).startswith("stage 1 failed")
