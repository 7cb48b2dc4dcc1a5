"""In which order py-spy is called, and what is made of its failures."""

from __future__ import annotations

import json
from typing import Any

import pytest

from collectors.node.processes import process_state
from collectors.node.stacks import look as looking
from collectors.node.stacks.look import LookUnderWay, Manner, Sudo
from collectors.node.stacks.pyspy import PySpy

SPY = PySpy("/usr/bin/py-spy", False)
DENIED = b"Permission Denied: Try running again"
TORN = b"Error: Failed to get stack traces\n\nCaused by:\n    0: Failed to copy PyThreadState"


class Process:
    """What the kernel says of the process that is looked at."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.state: str | None = "S"
        monkeypatch.setattr(process_state, "of", self._seen)
        monkeypatch.setattr(process_state, "kernel_stack", lambda pid: ["nfs_wait"])
        monkeypatch.setattr(looking, "way_out", lambda pid: "connect as root")

    def _seen(self, pid: int) -> process_state.ProcessState | None:
        return None if self.state is None else process_state.ProcessState(self.state, "futex", "read", "/mnt/x", 2.5)


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Process:
    return Process(monkeypatch)


def sudo(works: bool = True) -> Sudo:
    made = Sudo(allowed=True)
    made.refused = not works
    return made


def a_look(
    *, native: bool = False, blocking: bool = True, spy: PySpy | None = SPY, may_sudo: bool = False
) -> LookUnderWay:
    return LookUnderWay(7, 7, Manner(native, blocking), spy, sudo(may_sudo))


def answer(*names: str) -> bytes:
    frames: list[dict[str, Any]] = [{"name": name, "filename": "/a.py", "line": 1, "module": None} for name in names]
    return json.dumps([{"thread_id": 1, "os_thread_id": 7, "thread_name": "MainThread", "frames": frames}]).encode()


def methods(look: LookUnderWay, outcome: bytes) -> list[str]:
    """Methods that are tried one after another when each fails in the same way."""
    tried = []
    while not look.finished:
        words = look.command()
        tried.append(next((word[2:] for word in words if word in ("--native", "--nonblocking")), "blocking"))
        look.take(1, b"", outcome)
    return tried


def test_the_gentlest_way_is_enough(process: Process) -> None:
    look = a_look()
    assert look.command() == ["/usr/bin/py-spy", "dump", "--json", "--pid", "7", "--nonblocking", "--locals"]
    look.take(0, answer("f"), b"")
    assert look.finished
    dump = look.result()
    assert (dump.method, dump.error, dump.syscall, dump.waiting_on, dump.cpu) == (
        "nonblocking",
        "",
        "read",
        "/mnt/x",
        2.5,
    )
    assert dump.kernel == []


def test_torn_reads_are_repeated_then_taken_with_a_pause(process: Process) -> None:
    assert methods(a_look(), TORN) == ["nonblocking", "nonblocking", "blocking"]


def test_a_main_thread_without_frames_is_looked_at_again_and_then_believed(process: Process) -> None:
    look = a_look()
    for _ in range(3):
        look.command()
        look.take(0, answer(), b"")
    assert look.finished
    assert (look.result().error, len(look.result().threads)) == ("", 1)


def test_a_stopped_process_is_never_paused(process: Process) -> None:
    process.state = "T"
    assert methods(a_look(native=True), TORN) == ["nonblocking", "nonblocking"]


def test_a_process_that_another_tracer_holds_is_read_without_one(process: Process) -> None:
    """The kernel refuses a second tracer, or its stop is the first one's; reading memory needs none."""
    for said in (b"Error: Operation not permitted (os error 1)", b"Error: unexpected waitpid result: Stopped"):
        look = a_look(native=True)
        look.command()
        look.take(1, b"", said)
        assert not look.finished
        look.command()
        look.take(0, answer("f"), b"")
        assert (look.result().method, look.result().error) == ("nonblocking", "")


def test_a_pause_that_has_passed_is_not_its_state(process: Process) -> None:
    process.state = "t"
    look, held = a_look(), a_look()
    for one in (look, held):
        one.command()
        one.take(0, answer("f"), b"")
    assert held.result().state == "t"
    process.state = "S"
    assert look.result().state == "S"


def test_native_falls_back_on_python_frames(process: Process) -> None:
    assert methods(a_look(native=True), TORN) == ["native", "nonblocking", "nonblocking", "blocking"]
    slow = a_look(native=True)
    slow.command()
    slow.take(None, b"", b"")
    assert not slow.finished


@pytest.mark.parametrize("state", [None, "Z"])
def test_a_dead_process_is_gone_without_a_try(process: Process, state: str | None) -> None:
    process.state = state
    look = a_look()
    assert look.finished
    assert look.result().error.startswith("gone: ")


def test_no_py_spy_leaves_what_the_kernel_says(process: Process) -> None:
    dump = a_look(spy=None).result()
    assert (dump.error.partition(":")[0], dump.state, dump.kernel) == ("no-py-spy", "S", ["nfs_wait"])


def test_a_refusal_is_tried_with_sudo_once(process: Process) -> None:
    look = a_look(may_sudo=True)
    look.command()
    look.take(1, b"", DENIED)
    assert look.command()[:3] == ["sudo", "-n", "/usr/bin/py-spy"]
    look.take(0, answer("f"), b"")
    assert look.result().error == ""


def test_sudo_is_not_tried_unasked(process: Process) -> None:
    look = LookUnderWay(7, 7, Manner(False, True), SPY, Sudo())
    look.command()
    look.take(1, b"", DENIED)
    assert look.finished


def test_sudo_is_given_the_name_that_its_rules_have(process: Process) -> None:
    look = a_look(may_sudo=True, spy=PySpy("/proc/5/fd/7", False, "/usr/bin/py-spy"))
    assert look.command()[0] == "/proc/5/fd/7"
    look.take(1, b"", DENIED)
    assert look.command()[:3] == ["sudo", "-n", "/usr/bin/py-spy"]


def test_sudo_that_refuses_is_remembered_and_quoted(process: Process) -> None:
    shared = sudo()
    first = LookUnderWay(7, 7, Manner(False, True), SPY, shared)
    first.command()
    first.take(1, b"", DENIED)
    first.command()
    first.take(1, b"", b"sudo: a password is required\n")
    assert first.finished
    assert first.result().error == "denied: Permission Denied: Try running again; sudo: a password is required"
    assert first.result().way_out == "connect as root"
    second = LookUnderWay(8, 8, Manner(False, True), SPY, shared)
    second.command()
    second.take(1, b"", DENIED)
    assert second.finished
