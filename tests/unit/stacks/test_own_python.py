"""Python 3.14's way into a process: read from outside by the rank's own interpreter, and by consent from within."""

from __future__ import annotations

import base64
import itertools
import os
import threading
import time
from pathlib import Path

import pytest

from collectors.fleet.local import Local
from collectors.node import loader
from collectors.node.stacks import as_rank, own_python, own_stacks, served_stacks
from collectors.probes.attach.run import attach
from collectors.probes.own_python import as_rank as source
from collectors.samples.stacks import StackDump
from tests.support.made import stack
from tests.support.new_python import NewPython, real, stand_in


@pytest.fixture(autouse=True)
def program(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program that is run and sent along, with folders by names of this process's tests."""
    named = source().replace(b"hangtop-attach-", MINE.encode())
    monkeypatch.setitem(loader._blobs, own_python.PROGRAM, named)
    monkeypatch.setattr("collectors.probes.own_python.as_rank", lambda: named)


@pytest.fixture(params=["real", "stand-in"])
def new_python(request: pytest.FixtureRequest, tmp_path: Path) -> NewPython:
    """A Python 3.14, or what stands for one."""
    if request.param == "stand-in":
        return stand_in(tmp_path)
    found = real()
    if found is None:
        pytest.skip("no Python 3.14 here: HANGTOP_PYTHON314 names one")
    return found


MINE = f"hangtop-attach-{os.getpid()}-"
"""Beginning of the folders that are made for the tests of this process: others may make theirs at the same time."""


def left() -> list[str]:
    return [str(path) for place in ("/dev/shm", "/tmp") for path in Path(place).glob(MINE + "*")]


def refused(pid: int, why: str = "no-py-spy: none") -> StackDump:
    return stack(pid, at=time.time(), threads=[], error=why)


@pytest.mark.parametrize("how", ["busy", "c"])
def test_its_own_python_reads_where_py_spy_cannot(how: str, new_python: NewPython, tmp_path: Path) -> None:
    with new_python.rank(how, tmp_path) as rank:
        time.sleep(0.1)
        looked = own_stacks.instead(refused(rank.pid))
    assert looked is not None
    assert (looked.method, looked.error) == ("own Python", "")
    names = {frame.name for thread in looked.threads for frame in thread.frames}
    assert "waits_for_a_lock" in names
    if not new_python.prelude:
        assert ("sits_in_c" if how == "c" else "counts_in_python") in names, "also inside a call of C"
    main = next(thread for thread in looked.threads if thread.name == "MainThread")
    assert main.os_thread_id == rank.pid


def test_an_answer_of_py_spy_stands_and_a_refusal_of_the_kernel_is_final(new_python: NewPython, tmp_path: Path) -> None:
    with new_python.rank("c", tmp_path) as rank:
        assert own_stacks.instead(stack(rank.pid, "forward")) is None
        assert own_stacks.instead(refused(rank.pid, "denied: Operation not permitted")) is None
    assert own_stacks.instead(refused(os.getpid())) is None, "this Python is too old for it"


async def test_a_rank_in_python_writes_its_stacks_and_says_of_its_recorder(
    new_python: NewPython, tmp_path: Path
) -> None:
    with new_python.rank("busy", tmp_path) as rank:
        looks, dumps = await attach(Local("node1"), "python3", [(3, rank.pid)], 8.0)
        assert rank.poll() is None
    (look,) = looks
    assert (look.method, look.error) == ("remote exec", "")
    main = next(thread for thread in look.threads if thread.os_thread_id == rank.pid)
    assert main.frames[0].name == "counts_in_python" or new_python.prelude, "the script's own frames are not shown"
    assert "waits_for_a_lock" in {frame.name for thread in look.threads for frame in thread.frames}
    (dump,) = dumps
    assert (dump.rank, dump.data) == (3, b"")
    assert "no torch.distributed with a flight recorder" in dump.why
    assert left() == []


async def test_a_rank_in_c_does_not_answer_and_the_request_is_taken_back(new_python: NewPython, tmp_path: Path) -> None:
    with new_python.rank("c", tmp_path) as rank:
        looks, dumps = await attach(Local("node1"), "python3", [(3, rank.pid)], 0.5)
        assert rank.poll() is None
    assert looks[0].threads == [] or new_python.prelude
    if not new_python.prelude:  # a signal interrupts the stand-in's lock, nothing interrupts CPython's
        assert "inside a call of C" in looks[0].error
        assert "taken back" in dumps[0].why
    assert left() == []


def test_a_rank_that_still_writes_keeps_no_folder(tmp_path: Path) -> None:
    folder = tmp_path / "hangtop-attach-1"
    folder.mkdir()
    begun = threading.Event()

    def writes() -> None:
        for number in itertools.count():
            try:
                (folder / str(number)).write_bytes(b"x" * 4096)
            except OSError:
                return
            if number == 20:
                begun.set()

    writer = threading.Thread(target=writes, daemon=True)
    writer.start()
    assert begun.wait(10.0)
    as_rank._remove(str(folder))
    writer.join(10.0)
    assert not writer.is_alive()
    assert list(tmp_path.iterdir()) == []


def test_a_script_that_runs_after_it_was_taken_back_raises_nothing_in_the_rank(tmp_path: Path) -> None:
    gone = tmp_path / "hangtop-attach-2"
    exec(as_rank.SCRIPT % str(gone), {})
    assert not gone.exists()


async def test_a_kernel_or_a_job_that_forbids_it_says_so(tmp_path: Path) -> None:
    made = stand_in(tmp_path)
    with made.rank("busy", tmp_path, {"PYTHON_STAND_IN_REFUSES": "1"}) as rank:
        with pytest.raises(OSError, match="Operation not permitted"):
            own_stacks.instead(refused(rank.pid))
        assert str(own_python.run(rank.pid, "send", 1.0)["why"]).startswith("PermissionError")
    with made.rank("busy", tmp_path, {"PYTHON_DISABLE_REMOTE_DEBUG": "1"}) as rank:
        looks, _ = await attach(Local("node1"), "python3", [(3, rank.pid)], 0.5)
    assert "switched off in this process (PYTHON_DISABLE_REMOTE_DEBUG)" in looks[0].error
    assert left() == []


def program_of(tmp_path: Path, script: str) -> dict[str, object]:
    """An order to read by a program of the rank's user, which may be anything."""
    path = tmp_path / "python3.14"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return {"python": str(path), "own_pid": 1, "env": {"PATH": os.environ["PATH"]}}


def test_what_the_rank_s_own_program_says_is_bounded(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="says more than 4 MB"):
        as_rank._read(program_of(tmp_path, "exec yes"))


def test_warnings_of_the_rank_s_own_program_do_not_spoil_its_answer(tmp_path: Path) -> None:
    assert as_rank._read(program_of(tmp_path, "echo odd >&2; echo '[]'")) == {"threads": []}
    assert as_rank._read(program_of(tmp_path, "echo '[]'; echo bad >&2; exit 2")) == {"why": "bad"}


def test_an_older_python_is_named() -> None:
    assert own_python.unable(os.getpid()).startswith("it runs Python 3.")
    assert own_python.unable(os.getpid()).endswith("this came with 3.14")


@pytest.mark.parametrize(
    ("maps", "expected"),
    [
        ("7f r-xp 0 fe:00 1 /usr/lib/libpython3.14.so.1.0\n", "3.14"),
        ("7f r-xp 0 fe:00 1 /opt/venv/bin/python3.14t\n", "3.14t"),
        ("7f r-xp 0 fe:00 1 /usr/bin/python3.9\n", "3.9"),
        ("7f r-xp 0 fe:00 1 /usr/lib/libtorch_python3.14.txt\n", None),
    ],
)
def test_the_release_of_a_python_by_what_it_has_mapped(maps: str, expected: str | None, tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "maps").write_text(maps)
    found = own_python.release(7, str(tmp_path))
    assert (found and found.name) == expected


def test_the_script_keeps_torch_s_recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class C10d:
        @staticmethod
        def _dump_fr_trace() -> bytes:
            return b"a pickle"

    class Torch:
        class _C:
            _distributed_c10d = C10d

    monkeypatch.setitem(__import__("sys").modules, "torch", Torch)
    exec(as_rank.SCRIPT % str(tmp_path), {})
    assert (tmp_path / "recorder").read_bytes() == b"a pickle"
    assert b"test_the_script_keeps" in (tmp_path / "stacks").read_bytes()
    assert (tmp_path / "done").exists()
    assert not list(tmp_path.glob("*.part"))
    assert base64.b64encode(as_rank._content(str(tmp_path), "nothing")) == b""


def test_the_script_tells_the_main_thread_of_more_than_faulthandler_lists(tmp_path: Path) -> None:
    over = threading.Event()
    others = [threading.Thread(target=over.wait, daemon=True) for _ in range(120)]
    for other in others:
        other.start()
    try:
        exec(as_rank.SCRIPT % str(tmp_path), {})
    finally:
        over.set()
        for other in others:
            other.join()
    *_, main = served_stacks.threads((tmp_path / "stacks").read_text(), 7, True)
    assert (main.os_thread_id, main.name) == (7, "MainThread")
    assert "test_the_script_tells_the_main_thread" in " ".join(frame.name for frame in main.frames)
    assert not any("_hangtop" in frame.name or frame.name in ("keep", "stacks") for frame in main.frames)
