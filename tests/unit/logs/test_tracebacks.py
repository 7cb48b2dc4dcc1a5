"""Tracebacks: whole, per rank, chained, boxed, behind any front, cut; what was said in front of them, and survived."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.logs import fixture, of_kind, only, parse

PLAIN = """Traceback (most recent call last):
  File "/opt/train/main.py", line 120, in <module>
    main()
  File "/opt/train/main.py", line 88, in main
    loss = step(batch)
           ^^^^^^^^^^^
  File "/opt/venv/lib/python3.11/site-packages/torch/nn/modules/module.py", line 1778, in _call_impl
    return forward_call(*args, **kwargs)
RuntimeError: CUDA error: device-side assert triggered
CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.
For debugging consider passing CUDA_LAUNCH_BLOCKING=1

next line
"""
RAISED = 'Traceback (most recent call last):\n  File "t.py", line 3, in main\n    go()\nValueError: bad shard\n'
RAY = (
    'Traceback (most recent call last):\n  File "/x/main.py", line 45, in main\n    ray.get(task)\n'
    "ray.exceptions.RayTaskError({}): ray::Task.run() (pid=4030, ip=10.0.2.100)\n"
    '  File "/x/loop.py", line 9, in fit\n{}\n\n'
)
IGNORED = "Exception ignored in atexit callback: <function save_table at 0x7f1000aa>\n"
WARNED = "(EngineCore pid=81) WARNING 06-25 16:32:09 [lazy.py:40] "


def fronted(front: str, text: str = RAISED) -> str:
    return "".join(f"{front}{line}\n" for line in text.splitlines())


CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "whole": (
        PLAIN,
        {
            "type": "RuntimeError", "signature": "cuda", "frame": "/opt/train/main.py:88 in main", "launcher": False,
            "frames": [
                "/opt/train/main.py:120 in <module>", "/opt/train/main.py:88 in main",
                "/opt/venv/lib/python3.11/site-packages/torch/nn/modules/module.py:1778 in _call_impl",
            ],
        },
    ),
    "behind a progress bar": ("Epoch 3:  45%|████▌  | 45/100 [00:12<00:15, 3.6it/s]" + RAISED, {"type": "ValueError"}),
    "behind a bar without line ends": ("\rEpoch 3:  45%|\rEpoch 3:  46%|\r" + RAISED, {"type": "ValueError"}),
    "cut in its midst": (RAISED.partition("ValueError")[0], {"message": "", "frame": "t.py:3 in main"}),
    "its last line alone": ("RuntimeError: shard 3 is empty\n", {"message": "shard 3 is empty"}),
    "behind a front that no pattern knows": (fronted("10:00:01 >> unit-1 ## "), {"frame": "t.py:3 in main"}),
    "within a message": (
        '{"level":"ERROR","message":"' + RAISED.replace('"', '\\"').replace("\n", "\\n") + '","rank":3}\n',
        {"frame": "t.py:3 in main", "type": "ValueError"},
    ),
    "of a worker of Ray": (RAY.format("ValueError", "ValueError: bad shard 3"), {"message": "bad shard 3"}),
    "of a worker of Ray that died": (
        RAY.format("ActorDiedError", "The actor died unexpectedly."),
        {"type": "ActorDiedError", "signature": "child_failed", "consequence": True},
    ),
    "before a logger's line": (RAISED + "2026-11-25 10:30:00,000 - io - INFO - part 9\n", {"message": "bad shard"}),
    "before torch's words": (
        RAISED + "[E ProcessGroupNCCL.cpp:325] Some NCCL operations have failed.\n", {"message": "bad shard"},
    ),
    "before an abort": (
        RAISED + "terminate called after throwing an instance of 'x'\n  what():  gone\n", {"message": "bad shard"},
    ),
    "that a logger told": ("[2026-11-25 10:30:00,000] [WARNING] [sched.py:690] no rate\n" + RAISED, {"logged": True}),
    "that a logger told as a warning": (fronted(WARNED, "Module fast failed to load\n" + RAISED), {"survived": True}),
    "that Python ignored": (IGNORED + RAISED, {"survived": True}),
    "that Python ignored on one rank": (fronted("3: ", IGNORED + RAISED), {"survived": True}),
}  # fmt: skip


@pytest.mark.parametrize(("text", "fields"), CASES.values(), ids=CASES)
def test_a_traceback(text: str, fields: dict[str, Any]) -> None:
    event = only(parse("first\n" + text), "python.exception")
    assert {name: event.data.get(name) for name in fields} == fields
    assert event.line == 2 + text.startswith(("Exception", "[2026")) + text.startswith((WARNED, "3: "))


def test_its_text_is_whole_and_its_message_is_read_by_the_rules() -> None:
    events = parse(PLAIN)
    event = only(events, "python.exception")
    assert event.text.startswith("Traceback (most recent call last):\n")
    assert str(event.data["message"]).endswith("CUDA_LAUNCH_BLOCKING=1")
    assert only(events, "torch.cuda_error").data == {"error": "device-side assert triggered", "raised": True}
    assert not of_kind(parse(IGNORED + PLAIN), "torch.cuda_error"), "what was ignored tells of no fault"


def test_ranks_that_write_at_once() -> None:
    mixed = "".join(f"[rank{rank}]: {line}\n" for line in PLAIN.splitlines()[:9] for rank in (0, 5))
    events = of_kind(parse(mixed), "python.exception")
    assert [(event.rank, event.data["frame"]) for event in events] == [
        (0, "/opt/train/main.py:88 in main"),
        (5, "/opt/train/main.py:88 in main"),
    ]


def test_what_an_unlabelled_logger_said_does_not_introduce_a_rank_s_traceback() -> None:
    text = "[2026-11-25 10:30:00,000] [WARNING] [sched.py:690:get] no rate yet\n" + fronted("[rank3]: ")
    event = only(parse(text), "python.exception")
    assert (event.rank, event.data.get("logged"), event.data.get("survived")) == (3, None, None)


def test_the_next_traceback_is_another_matter() -> None:
    for front in ("", "1: "):
        text = fronted(front, IGNORED + RAISED + "the last words of a run\n" + RAISED.replace("shard", "data"))
        assert ["survived" in e.data for e in of_kind(parse(text), "python.exception")] == [True, False]


def test_the_time_before_it_is_a_lower_bound() -> None:
    event = only(parse("2026-11-21 03:00:00,5 INFO step 1\n" + PLAIN), "python.exception")
    assert event.at is None
    assert isinstance(event.data["after"], float)


def test_deep_recursion_stays_small() -> None:
    text = RAISED.replace("    go()\n", '  File "a.py", line 1, in f\n    f()\n' * 5000)
    event = only(parse(text), "python.exception")
    assert isinstance(event.data["frames"], list)
    assert (len(event.data["frames"]), len(event.text) <= 4100) == (60, True)


# --- what torchrun prints and writes when a worker fails: from real runs ------------------------------------------


def test_a_recorded_traceback_in_the_block() -> None:
    events = fixture("record_tee")
    first, root = of_kind(events, "elastic.failure")
    quoted = [e.data["message"] for e in of_kind(events, "python.exception") if e.line == root.line]
    assert quoted == ["CUDA out of memory. Tried to allocate 20.00 MiB (simulated)"]
    assert (root.at or 0.0) < (first.at or 0.0), "the earlier one in time is the root, though it is printed last"


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
