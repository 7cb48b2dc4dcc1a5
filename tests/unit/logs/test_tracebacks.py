"""Tracebacks: whole, per rank, chained, boxed, interleaved, cut."""

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
Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.

next line
"""


def test_it_is_kept_whole() -> None:
    events = parse(PLAIN)
    event = only(events, "python.exception")
    assert event.data["type"] == "RuntimeError"
    assert event.data["signature"] == "cuda"
    assert str(event.data["message"]).endswith("device-side assertions.")
    assert event.data["frame"] == "/opt/train/main.py:88 in main"
    assert event.data["frames"] == [
        "/opt/train/main.py:120 in <module>",
        "/opt/train/main.py:88 in main",
        "/opt/venv/lib/python3.11/site-packages/torch/nn/modules/module.py:1778 in _call_impl",
    ]
    assert event.text.startswith("Traceback (most recent call last):\n")
    assert event.line == 1
    assert only(events, "torch.cuda_error").data == {
        "error": "device-side assert triggered", "signature": "device_assert", "raised": True,
    }  # fmt: skip


def test_ranks_that_write_at_once() -> None:
    lines = PLAIN.splitlines()[:9]
    mixed = "".join(f"[rank{rank}]: {line}\n" for line in lines for rank in (0, 5))
    events = of_kind(parse(mixed), "python.exception")
    assert [(event.rank, event.data["frame"]) for event in events] == [
        (0, "/opt/train/main.py:88 in main"),
        (5, "/opt/train/main.py:88 in main"),
    ]


def test_a_chain_is_one_exception() -> None:
    event = [e for e in fixture("chained") if e.kind == "python.exception" and e.rank == 1]
    assert [(e.data["type"], e.data["message"]) for e in event] == [("ValueError", "bad configuration")]


def test_a_progress_bar_in_front() -> None:
    text = "Epoch 3:  45%|████▌     | 45/100 [00:12<00:15, 3.6it/s]Traceback (most recent call last):\n"
    event = only(parse("first\n" + text + '  File "a.py", line 1, in f\nValueError: x\n'), "python.exception")
    assert (event.data["type"], event.line) == ("ValueError", 2)
    text = "\rEpoch 3:  45%|\rEpoch 3:  46%|\rTraceback (most recent call last):\r\n"
    event = only(parse("first\n" + text + '  File "a.py", line 1, in f\nValueError: x\n'), "python.exception")
    assert (event.data["type"], event.line) == ("ValueError", 2)


def test_one_that_was_cut() -> None:
    event = only(
        parse('Traceback (most recent call last):\n  File "a.py", line 1, in f\n    x = g('), "python.exception"
    )
    assert event.data["cut"] is True
    assert event.data["frame"] == "a.py:1 in f"
    event = only(parse("RuntimeError: shard 3 is empty\n"), "python.exception")
    assert event.data["cut"] is True
    assert event.data["message"] == "shard 3 is empty"


def test_behind_a_front_that_no_pattern_knows() -> None:
    raised = 'Traceback (most recent call last):\n  File "t.py", line 3, in main\n    x()\nValueError: bad shard'
    text = "".join(f"10:00:0{i} >> unit-{i} ## {line}\n" for i, line in enumerate(raised.splitlines()))
    wrapped = '{"level":"ERROR","message":"' + raised.replace('"', '\\"').replace("\n", "\\n") + '","rank":3}\n'
    for each in (text, wrapped):
        event = only(parse(each), "python.exception")
        assert (event.data["type"], event.data["frame"]) == ("ValueError", "t.py:3 in main")


def test_the_launcher_s_own() -> None:
    events = of_kind(fixture("norecord"), "python.exception")
    assert [(event.rank, event.data["launcher"], event.data["consequence"]) for event in events] == [
        (1, False, False),
        (0, False, True),
        (None, True, True),
    ]


def test_the_rank_of_a_spawned_process() -> None:
    events = of_kind(fixture("spawn"), "python.exception")
    assert [(event.rank, event.data["type"]) for event in events] == [
        (None, "ProcessRaisedException"),
        (1, "FileNotFoundError"),
    ]


def test_the_thread_that_raised() -> None:
    opening = "Exception in thread Thread-3:\nTraceback (most recent call last):\n"
    text = opening + '  File "a.py", line 1, in f\nValueError: x\n'
    assert only(parse(text), "python.exception").data["thread"] == "Thread-3"


def test_a_dump_of_faulthandler() -> None:
    event = only(fixture("segv"), "python.fatal")
    assert event.data["error"] == "Segmentation fault"
    assert event.data["frame"] == "/opt/train/segv.py:4 in corrupt"


def test_the_last_error_that_nccl_names_in_an_exception() -> None:
    text = (
        'Traceback (most recent call last):\n  File "a.py", line 1, in f\n'
        "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:219, unhandled"
        " system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.18.1\n"
        "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.\n"
        "Last error:\nError while creating shared memory segment /dev/shm/nccl-Vx (size 9637888)\n"
    )
    events = parse(text)
    assert only(events, "nccl.warn").data["signature"] == "shared_memory"
    assert only(events, "torch.watchdog_error").data["error"] == "unhandled system error"
    assert only(events, "python.exception").data["signature"] == "nccl"


def test_the_time_before_it_is_a_lower_bound() -> None:
    event = only(parse("2026-11-21 03:00:00,5 INFO step 1\n" + PLAIN), "python.exception")
    assert event.at is None
    assert isinstance(event.data["after"], float)


def test_deep_recursion_stays_small() -> None:
    text = (
        "Traceback (most recent call last):\n"
        + '  File "a.py", line 1, in f\n    f()\n' * 5000
        + "RecursionError: deep\n"
    )
    event = only(parse(text), "python.exception")
    frames = event.data["frames"]
    assert isinstance(frames, list)
    assert len(frames) == 60
    assert len(event.text) <= 4100


def test_what_a_worker_of_ray_raised_is_told_and_not_ray_s_wrapping() -> None:
    wrapped = (
        "Traceback (most recent call last):\n"
        '  File "/opt/train/main.py", line 45, in main\n'
        "    ray.get(task)\n"
        "ray.exceptions.RayTaskError({}): ray::Task.run() (pid=4030, ip=10.0.2.100)\n"
        '  File "/opt/train/loop.py", line 9, in fit\n'
        "{}\n\n"
    )
    own = only(parse(wrapped.format("ValueError", "ValueError: bad shard 3")), "python.exception")
    assert (own.data["type"], own.data["message"], own.data["consequence"]) == ("ValueError", "bad shard 3", False)
    died = only(parse(wrapped.format("ActorDiedError", "The actor died unexpectedly.")), "python.exception")
    assert (died.data["type"], died.data["signature"], died.data["consequence"]) == (
        "ActorDiedError", "child_failed", True,
    )  # fmt: skip


def test_a_logger_s_next_line_is_no_part_of_the_message() -> None:
    raised = 'Traceback (most recent call last):\n  File "/x/train.py", line 3, in f\n    go()\nValueError: bad shard\n'
    for line in ("2026-11-25 10:30:00,000 - app.io - INFO - part 9 is read", "2026-11-25 10:30:00.1 | INFO | part 9"):
        assert only(parse(raised + line + "\n"), "python.exception").data["message"] == "bad shard"


def test_what_an_unlabelled_logger_said_does_not_introduce_a_rank_s_traceback() -> None:
    raised = 'Traceback (most recent call last):\n  File "/x/train.py", line 3, in f\n    go()\nValueError: bad shard\n'
    labelled = "".join("[rank3]: " + line + "\n" for line in raised.splitlines())
    above = "[2026-11-25 10:30:00,000] [WARNING] [sched.py:690:get] no rate yet\n"
    event = only(parse(above + labelled), "python.exception")
    assert (event.rank, event.data.get("logged"), event.data.get("survived")) == (3, None, None)
    assert only(parse(above + raised), "python.exception").data["logged"] is True


def test_what_a_logger_told_whole_at_the_level_of_warnings_was_survived() -> None:
    front = "(EngineCore pid=81) WARNING 06-25 16:32:09 [lazy.py:40] "
    rows = [
        "Module fast was found but failed to load",
        "Traceback (most recent call last):",
        '  File "/a/lazy.py", line 38, in has',
        "    load(name)",
        "ImportError: libfast.so.9: cannot open shared object file: No such file or directory",
    ]
    event = only(parse("".join(f"{front}{row}\n" for row in rows)), "python.exception")
    assert event.data["survived"] is True
    graver = only(parse("".join(f"{front}{row}\n" for row in ["The worker died:", *rows[1:]])), "python.exception")
    assert "survived" not in graver.data


def test_what_c_says_behind_a_message_is_no_part_of_it() -> None:
    raised = (
        'Traceback (most recent call last):\n  File "/x/train.py", line 3, in f\n    go()\nRuntimeError: sizes differ\n'
    )
    aborted = "terminate called after throwing an instance of 'std::runtime_error'\n  what():  [Rank 2] gone\n"
    named = "[trainer] 2026-05-09 10:00:00,000 - root - INFO - Training completed\n"
    for behind in ("[E ProcessGroupNCCL.cpp:325] Some NCCL operations have failed or timed out.\n", aborted, named):
        event = only(parse(raised + behind), "python.exception")
        assert (event.data["message"], event.data["signature"]) == ("sizes differ", "user")
