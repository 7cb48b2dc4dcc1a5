"""In which order py-spy is called, and what is made of its failures."""

from __future__ import annotations

import json
from typing import Any

import pytest

from collectors.node import child
from collectors.node.child import ChildEnded
from collectors.node.processes import process_state
from collectors.node.stacks import look as looking
from collectors.node.stacks.look import Manner, Sudo, look
from collectors.node.stacks.pyspy import PySpy
from collectors.samples.stacks import StackDump

SPY = PySpy("/usr/bin/py-spy", False)
DENIED = ChildEnded(1, b"", b"Permission Denied: Try running again")
TORN = ChildEnded(1, b"", b"Error: Failed to get stack traces\n\nCaused by:\n    0: Failed to copy PyThreadState")
SLOW = ChildEnded(None, b"", b"")


def answer(*names: str) -> ChildEnded:
    frames: list[dict[str, Any]] = [{"name": name, "filename": "/a.py", "line": 1, "module": None} for name in names]
    thread = {"thread_id": 1, "os_thread_id": 7, "thread_name": "MainThread", "frames": frames}
    return ChildEnded(0, json.dumps([thread]).encode(), b"")


class Process:
    """What the kernel says of the process that is looked at, and what py-spy says, call by call (the last for ever)."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.state: str | None = "S"
        self.called: list[list[str]] = []
        self.later: str | None = None
        self._said: list[ChildEnded] = []
        monkeypatch.setattr(process_state, "of", self._seen)
        monkeypatch.setattr(child, "run", self._run)
        monkeypatch.setattr(process_state, "kernel_stack", lambda pid: ["nfs_wait"])
        monkeypatch.setattr(looking, "way_out", lambda pid: "connect as root")

    def _seen(self, pid: int) -> process_state.ProcessState | None:
        return None if self.state is None else process_state.ProcessState(self.state, "futex", "read", "/mnt/x", 2.5)

    def look(
        self, *said: ChildEnded, native: bool = False, spy: PySpy | None = SPY, sudo: Sudo | None = None
    ) -> StackDump:
        self._said = list(said)
        return look(7, 7, Manner(spy, sudo or Sudo(), native, True, 1.0))

    def _run(self, words: list[str], _seconds: float, _limit: int) -> ChildEnded:
        self.called.append(words)
        ended = self._said.pop(0) if len(self._said) > 1 else self._said[0]
        self.state = self.later if not self._said[1:] and self.later else self.state
        return ended

    def methods(self) -> list[str]:
        ways = ("--native", "--nonblocking")
        return [next((word[2:] for word in words if word in ways), "blocking") for words in self.called]


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Process:
    return Process(monkeypatch)


def sudo(works: bool = True) -> Sudo:
    made = Sudo(allowed=True)
    made.refused = not works
    return made


def test_the_gentlest_way_is_enough(process: Process) -> None:
    dump = process.look(answer("f"))
    assert process.called == [["/usr/bin/py-spy", "dump", "--json", "--pid", "7", "--nonblocking", "--locals"]]
    assert (dump.method, dump.error, dump.syscall, dump.waiting_on) == ("nonblocking", "", "read", "/mnt/x")
    assert (dump.cpu, dump.kernel) == (2.5, [])


@pytest.mark.parametrize(
    ("said", "native", "state", "methods"),
    [
        (TORN, False, "S", ["nonblocking", "nonblocking", "blocking"]),
        (TORN, True, "S", ["native", "nonblocking", "nonblocking", "blocking"]),
        (TORN, True, "T", ["nonblocking", "nonblocking"]),  # a stopped process is never paused
        (SLOW, True, "S", ["native", "nonblocking"]),
        (answer(), False, "S", ["nonblocking", "nonblocking", "blocking"]),  # a main thread without frames
        (DENIED, False, "S", ["nonblocking"]),  # sudo is not tried unasked
    ],
)
def test_the_ways_that_are_tried_one_after_another(
    process: Process, said: ChildEnded, native: bool, state: str, methods: list[str]
) -> None:
    process.state = state
    process.look(said, native=native)
    assert process.methods() == methods


@pytest.mark.parametrize("said", [b"Error: Operation not permitted (os error 1)", b"Error: unexpected waitpid result"])
def test_a_process_that_another_tracer_holds_is_read_without_one(process: Process, said: bytes) -> None:
    """The kernel refuses a second tracer, or its stop is the first one's; reading memory needs none."""
    dump = process.look(ChildEnded(1, b"", said), answer("f"), native=True)
    assert (dump.method, dump.error) == ("nonblocking", "")


@pytest.mark.parametrize("later", ["t", "S"])
def test_a_pause_that_has_passed_is_not_its_state(process: Process, later: str) -> None:
    process.state, process.later = "t", later
    assert process.look(answer("f")).state == later


@pytest.mark.parametrize("state", [None, "Z"])
def test_a_dead_process_is_gone_without_a_try(process: Process, state: str | None) -> None:
    process.state = state
    assert process.look(DENIED).error.startswith("gone: ")
    assert process.called == []


def test_no_py_spy_leaves_what_the_kernel_says(process: Process) -> None:
    dump = process.look(DENIED, spy=None)
    assert (dump.error.partition(":")[0], dump.state, dump.kernel) == ("no-py-spy", "S", ["nfs_wait"])


def test_a_refusal_is_tried_with_sudo_once(process: Process) -> None:
    assert process.look(DENIED, answer("f"), sudo=sudo()).error == ""
    assert [words[:3] for words in process.called[1:]] == [["sudo", "-n", "/usr/bin/py-spy"]]


def test_sudo_that_refuses_is_remembered_and_quoted(process: Process) -> None:
    shared = sudo()
    first = process.look(DENIED, ChildEnded(1, b"", b"sudo: a password is required\n"), sudo=shared)
    assert first.error == "denied: Permission Denied: Try running again; sudo: a password is required"
    assert first.way_out == "connect as root"
    process.called.clear()
    process.look(DENIED, sudo=shared)
    assert process.methods() == ["nonblocking"]
