"""faulthandler's text as a debug server gives it, and when it stands in for py-spy."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.node.nccl import debug_server
from collectors.node.stacks import served_stacks
from collectors.samples.stacks import StackDump

TEXT = """Current thread 0x00007f304dffb6c0 (most recent call first):
  <no Python frame>

Thread 0x00007f3081000000 [pt_data_pin] (most recent call first):
  File "/usr/lib/python3.14/threading.py", line 359 in wait

Thread 0x00007f308169cb80 (most recent call first):
  File "/job/data.py", line 12 in read_shard
  File "/job/train.py", line ??? in <module>
"""


def dump(error: str) -> StackDump:
    return StackDump(7, 7, 1.0, "none", "S", "", "", 0.0, error, [], way_out="log in as root")


def test_threads_and_frames() -> None:
    server, pin, main = served_stacks.threads(TEXT, 7, True)
    assert (server.frames, server.os_thread_id) == ([], None)
    assert (pin.name, pin.frames[0].name, pin.frames[0].line) == ("pt_data_pin", "wait", 359)
    assert (main.os_thread_id, main.name, main.active) == (7, "MainThread", True)
    assert [(one.name, one.file, one.line) for one in main.frames] == [
        ("read_shard", "/job/data.py", 12), ("<module>", "/job/train.py", 0),
    ]  # fmt: skip


def test_of_more_threads_than_are_listed_the_last_one_is_not_taken_for_the_main_one() -> None:
    for end in ("...\n", "\n...\n\n"):
        found = served_stacks.threads(TEXT + end, 7, True)
        assert [one.os_thread_id for one in found] == [None, None, None]
        assert all(one.name != "MainThread" for one in found)
    told = served_stacks.threads(TEXT + "...\n" + TEXT, 7, True)
    assert [one.name for one in told].count("MainThread") == 1


WRITES = """
import faulthandler, sys, threading

def train():
    faulthandler.dump_traceback(sys.stdout, all_threads=True)

threading.Thread(target=threading.Event().wait, daemon=True).start()
train()
"""


def test_what_this_python_writes_is_read() -> None:
    said = subprocess.run([sys.executable, "-c", WRITES], capture_output=True, text=True, check=True).stdout
    found = served_stacks.threads(said, 7, False)
    assert any(frame.name == "wait" for frame in found[0].frames)
    assert [frame.name for frame in found[-1].frames] == ["train", "<module>"]


@given(st.text() | st.lists(st.sampled_from(TEXT.splitlines())).map("\n".join))
def test_any_text_is_read(text: str) -> None:
    for thread in served_stacks.threads(text, 7, False):
        assert all(frame.line >= 0 for frame in thread.frames)


@pytest.mark.parametrize(
    ("error", "asked"),
    [("denied: x", True), ("no-py-spy: x", True), ("torn: x", False), ("", False), ("gone: x", False)],
)
def test_a_server_is_asked_only_where_py_spy_may_not_look(
    error: str, asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = debug_server.Server(7, ("localhost", 1), ["dump_traceback"])
    monkeypatch.setattr(debug_server, "find", lambda pid, wanted: server)
    monkeypatch.setattr(debug_server, "ask", lambda *_: TEXT.encode())
    found = served_stacks.instead(dump(error))
    assert (found is not None) is asked
    if found is not None:
        assert (found.method, found.error, found.way_out, len(found.threads)) == ("debug server", "", "", 3)
    monkeypatch.setattr(debug_server, "find", lambda pid, wanted: None)
    assert served_stacks.instead(dump(error)) is None
