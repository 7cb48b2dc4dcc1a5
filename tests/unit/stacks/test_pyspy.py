"""The py-spy that is run, and what it prints, as the node side reads it. The texts are those of py-spy 0.4.3."""

from __future__ import annotations

import json
import subprocess
import zlib
from pathlib import Path
from typing import Any

import pytest

from collectors.node.stacks import pyspy
from collectors.node.stacks.pyspy_output import failure, threads
from collectors.samples.stacks import main_thread

C10D = "/opt/env/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
LOGGER = "/opt/env/lib/python3.11/site-packages/torch/distributed/c10d_logger.py"


def frame(name: str, path: str, module: str | None = None, **variables: str) -> dict[str, Any]:
    shown = [{"name": key, "addr": 1, "arg": True, "repr": value} for key, value in variables.items()]
    return {
        "name": name, "filename": path, "module": module, "short_filename": "x", "line": 7,
        "locals": shown or None, "is_entry": False, "is_shim_entry": False,
    }  # fmt: skip


def output(*frames: dict[str, Any], system_id: int | None = 55, name: str | None = "MainThread") -> bytes:
    stack = {
        "pid": 55, "thread_id": 140, "thread_name": name, "os_thread_id": system_id, "active": False,
        "owns_gil": True, "frames": list(frames), "process_info": None,
    }  # fmt: skip
    return json.dumps([stack], indent=2).encode()


def arguments(*frames: dict[str, Any]) -> list[dict[str, str]]:
    return [each.arguments for each in threads(output(*frames), 55, 55)[0].frames]


def test_in_a_container_the_main_thread_gets_the_hosts_id() -> None:
    [thread] = threads(output(frame("f", "/a.py"), system_id=1, name=None), 4711, 1)
    assert thread.os_thread_id == 4711
    assert main_thread([thread], 4711) is thread
    assert main_thread([thread._replace(os_thread_id=9)], 4711) is None


def test_only_listed_arguments_of_torchs_own_frames_leave_the_node() -> None:
    secret = frame("login", "/home/ada/train.py", src="'hunter2'", group="x")
    known = frame("recv", C10D, src="3", group="None", tensor="<Tensor at 0x7f>", token="'hunter2'")
    long = frame("recv", C10D, src="9" * 500)
    assert arguments(secret, known, long) == [{}, {"src": "3", "group": "None"}, {}]


@pytest.mark.parametrize(
    ("placed", "named", "given"),
    [
        ("(<Tensor at 0x7f>)", "{}", {"group_given": "no"}),
        ("(<Tensor at 0x7f>)", '{"group": None}', {"group_given": "no"}),
        ("(<Tensor at 0x7f>)", '{"group": <ProcessGroup at 0x7f>}', {"group_given": "yes"}),
        ("(<Tensor at 0x7f>, <torch._C._distributed_c10d.ProcessGroup at 0x7f>)", "{}", {"group_given": "yes"}),
        ("(<Tensor at 0x7f>)", '{"output": <Tensor at 0x7f>, ...}', {}),
        ("(...)", '{"token": "hunter2"}', {}),
    ],
)
def test_whether_a_group_was_handed_to_the_wrapper(placed: str, named: str, given: dict[str, str]) -> None:
    assert arguments(frame("_exception_logger.<locals>.wrapper", LOGGER, args=placed, kwargs=named)) == [given]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("Permission Denied: Try running again with elevated permissions by going 'sudo env'", "denied"),
        (("Error: Failed to get process executable name. Check that the process is running.\n\nCaused by:\n"
         "    0: Permission denied (os error 13)"), "denied"),
        (("Error: Failed to get stack traces\n\nCaused by:\n    0: Failed to suspend process\n"
         "    1: EPERM: Operation not permitted"), "denied"),
        (("Error: Failed to get process executable name. Check that the process is running.\n\nCaused by:\n"
         "    0: No such file or directory (os error 2)"), "gone"),
        (("Error: Failed to get stack traces\n\nCaused by:\n    0: Failed to suspend process\n"
         "    1: unexpected waitpid result PtraceEvent(Pid(17950), SIGSTOP, 128) to 17950"), "stopped"),
        ("Error: Failed to find python version from target process", "not-python"),
        ("Error: Unsupported version of Python: 3.15.0", "no-py-spy"),
        (("Error: Failed to get stack traces\n\nCaused by:\n    0: Failed to copy PyFrameObject\n"
         "    1: Bad address (os error 14)"), "torn"),
        ("thread 'main' panicked at src/main.rs", "failed"),
        ("", "failed"),
    ],
)  # fmt: skip
def test_why_there_are_no_frames(text: str, word: str) -> None:
    assert failure(text.encode()).word == word


def test_a_lent_one_is_ours_and_cannot_be_changed() -> None:
    lent = pyspy.borrow(zlib.compress(b"#!/bin/sh\necho lent\n"))
    with pytest.raises(PermissionError), Path(lent).open("wb") as file:
        file.write(b"#!/bin/sh\necho evil\n")
    assert subprocess.run([lent], capture_output=True, check=True).stdout == b"lent\n"
