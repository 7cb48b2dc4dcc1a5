"""Stacks of other languages, and of processes that somebody looked at."""

from __future__ import annotations

import pytest

from tests.support.logs import kinds, only, parse

STACKS = {
    "Java": "\tat org.x.Foo.bar(Foo.java:12)\n\tat org.x.Main.main(Main.java:3)\n",
    "Node": "    at run (/app/x.js:1:2)\n    at /app/y.js:3:4\n",
    "Go": "goroutine 1 [running]:\nmain.main()\n\t/src/main.go:12 +0x1d\n",
    "Rust": "   3: lib::run\n             at ./src/lib.rs:3:5\n   4: main\n             at ./src/main.rs:9:1\n",
    "Lua": "\t[C]: in function 'error'\n\ttrain.lua:12: in main chunk\n",
    "Julia": " [1] error(s::String)\n   @ Base ./error.jl:35\n [2] top-level scope\n   @ train.jl:3\n",
}


@pytest.mark.parametrize("language", STACKS)
def test_a_stack_without_its_message(language: str) -> None:
    event = only(parse("step\n" + STACKS[language]), "log.error")
    assert (event.data["told"], event.data["message"]) == (
        "stack",
        f"a stack of {language}, whose message is not there",
    )


def test_julia_s_older_form() -> None:
    text = "abort at /lib64/libc.so.6 (unknown line)\njl_apply at /src/gf.c:12 [inlined]\n_start at ./client.jl:5\n"
    assert only(parse(text), "log.error").data["told"] == "stack"


GDB = "#0  0x00007ffff7a4b8f7 in {} () from /lib64/libc.so.6\n#1  0x00007ffff7a4d7c8 in {} (x=3) at foo.c:12\n"


def test_a_debugger_s_stack() -> None:
    assert only(parse(GDB.format("raise", "abort")), "log.error").data["told"] == "stack"
    waits = only(parse(GDB.format("poll", "MPI_Allreduce")), "log.error")
    assert (waits.data["told"], waits.data["message"]) == ("wait", "a stack of gdb that waits in MPI_Allreduce")
    assert kinds(parse(GDB.format("compute", "main"))) == []


DUMP = (
    'Thread 0x00007f57caf71740 (most recent call first):\n  File "s.py", line 95 in {}\n  File "t.py", line 3 in main\n'
)


def test_faulthandler_s_dump_on_request() -> None:
    assert only(parse(DUMP.format("all_reduce")), "log.error").data["told"] == "wait"
    assert kinds(parse(DUMP.format("matmul"))) == []


@pytest.mark.parametrize(
    "text",
    ["\tat org.x.Foo.bar(Foo.java:12)\n", "at noon (12:30)\nat night (23:10)\n", "see train.lua:12: it is good\n"],
)
def test_what_is_no_stack(text: str) -> None:
    assert kinds(parse(text)) == []
