"""What the kernel says of a process, from folders made like /proc."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from collectors.node.processes import process_state, procfs
from collectors.node.stacks import reader

X86 = os.uname().machine == "x86_64"


def make_process(folder: Path, *, stat: str, **others: str) -> Path:
    process = folder / "7"
    process.mkdir()
    (process / "stat").write_text(stat)
    for name, text in others.items():
        (process / name).write_text(text)
    (process / "fd").mkdir()
    return process


STAT = "7 (py) thon) S 1 7 7 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 1 0 100 1000 10"


@pytest.mark.parametrize(
    ("call", "arguments", "waiting_on"),
    [
        ("wait4", "0x4b 0x7ffd 0x0 0x0", "process 75"),
        ("wait4", "0xffffffffffffffff 0x7ffd 0x0 0x0", ""),
        ("wait4", "0x4d 0x7ffd 0x0 0x0", ""),
        ("wait4", "0x5 0x7ffd 0x0 0x0", "process 76"),
        ("waitid", "0x1 0x4b 0x7ffd 0x4", "process 75"),
    ],
)
def test_the_one_process_whose_end_a_call_waits_for(tmp_path: Path, call: str, arguments: str, waiting_on: str) -> None:
    number = next(number for number, name in process_state._NAMES.items() if name == call)
    process = make_process(tmp_path, stat=STAT, syscall=f"{number} {arguments} 0x7f 0x7f 0x7f\n")
    (process / "task" / "7").mkdir(parents=True)
    (process / "task" / "7" / "children").write_text("75 76 ")
    for child, numbers in ((75, ""), (76, "NSpid:\t76\t5\n")):
        (tmp_path / str(child)).mkdir()
        (tmp_path / str(child) / "status").write_text(f"Uid:\t0\t0\t0\t0\n{numbers}")
    seen = process_state.of(7, str(tmp_path))
    assert seen is not None
    assert (seen.syscall, seen.waiting_on) == (call, waiting_on)


def make_node(folder: Path, scope: str | None, uid: int) -> str:
    make_process(folder, stat=STAT, status=f"Name:\tpy\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\nNSpid:\t7\t1\n")
    if scope is not None:
        (folder / "sys/kernel/yama").mkdir(parents=True)
        (folder / "sys/kernel/yama/ptrace_scope").write_text(scope)
    return str(folder)


@pytest.mark.parametrize(
    ("own", "owner", "scope", "words"),
    [
        (1000, 1001, None, "belongs to uid 1001"),
        (1000, 1000, "1", "ptrace_scope is 1"),
        (1000, 1000, None, "connect as root"),
        (0, 1000, None, "stuck in the kernel"),
    ],
)
def test_the_way_out_fits_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: int, owner: int, scope: str | None, words: str
) -> None:
    proc = make_node(tmp_path, scope, owner)
    monkeypatch.setattr(os, "geteuid", lambda: own)
    monkeypatch.setattr(procfs, "may_trace_all", lambda: True)
    assert words in reader.way_out(7, proc)


def test_threads_that_do_not_sleep_at_a_futex_are_told(tmp_path: Path) -> None:
    """The main thread waits at a futex for one of its threads, which reads from a service: no lock is to blame."""
    process = make_process(tmp_path, stat=STAT)
    threads = {
        7: ("S", "futex_do_wait", "202 0x1"),
        8: ("S", "futex_do_wait", "202 0x1"),
        9: ("S", "unix_stream_read_generic", "0 0x3 0x7f"),
        10: ("R", "0", "running"),
    }
    for number, (state, wchan, syscall) in threads.items():
        folder = process / "task" / str(number)
        (folder / "fd").mkdir(parents=True)
        (folder / "stat").write_text(STAT.replace("7 (py) thon) S", f"{number} (loader) {state}"))
        (folder / "wchan").write_text(wchan)
        (folder / "syscall").write_text(syscall + "\n")
        (folder / "fd" / "3").symlink_to("/data/shard-7")
    told = process_state.beside_main(7, str(tmp_path))
    assert told == [
        ("loader", "none", ""),
        ("loader", process_state.call_names(os.uname().machine)[0], "/data/shard-7" if X86 else ""),
    ]
