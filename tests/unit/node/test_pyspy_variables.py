"""Digests of what a look finds in the frames of a main thread: whether it ran, and whether it came back."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping

import pytest

from collectors.node.stacks.pyspy_variables import Digests, of_main

LOOP = {"lengths": "[9, 2, 4]", "budget": "8", "spread": "0.2"}


def look(values: Mapping[str, str], line: int = 7, *, module: str | None = None, outer: str = "0x7f01") -> Digests:
    """What is told of a function with these variables, which ``main`` has called with an object."""
    inner = [{"name": name, "addr": 5, "repr": text} for name, text in values.items()]
    caller = [{"name": "model", "addr": int(outer, 16), "repr": f"<Model at {outer}>"}]
    frames = [
        {"name": "pack", "filename": "/job/pack.py", "module": module, "line": line, "locals": inner},
        {"name": "main", "filename": "/job/pack.py", "module": None, "line": 40, "locals": caller},
    ]
    threads = [{"thread_name": "feeder", "os_thread_id": 12, "frames": []},
               {"thread_name": None, "os_thread_id": 3, "frames": frames}]  # fmt: skip
    return of_main(json.dumps(threads).encode(), 11, 3)


def test_the_same_values_are_the_same_and_another_one_shows_that_it_ran() -> None:
    assert look(LOOP) == look(LOOP) != Digests()
    assert look(LOOP).variables == look(LOOP, 9).variables, "at another line of a loop"
    assert look(LOOP).ran != look(LOOP, 9).ran
    assert look({**LOOP, "spread": "0.4"}).ran != look(LOOP).ran
    assert look(LOOP, outer="0x7f02").ran != look(LOOP).ran, "its caller has another object"


def test_no_value_leaves_the_node() -> None:
    told = look({**LOOP, "token": '"s3cret"'})
    assert all(told)
    assert "s3cret" not in "".join(told)


@pytest.mark.parametrize(
    "hides",
    ["<Model at 0x7f01>", "[0, 1, 2, ...]", "+bigint", f"{time.time() + 30:.6f}", f"[{time.monotonic() + 1:.6f}, 1]",
     str(time.time_ns()), f'{{"until": {time.time():.7f}}}'],
    ids=["an object", "cut off", "a big number", "a time", "in a list", "nanoseconds", "by name"],
)  # fmt: skip
def test_what_may_hide_progress_tells_that_it_ran_and_not_that_it_came_back(hides: str) -> None:
    told = look({**LOOP, "more": hides})
    assert (told.variables, bool(told.ran)) == ("", True)


def test_what_other_threads_may_change_is_known_by_where_it_is() -> None:
    assert look({"seen": "[1, 2]"}).ran == look({"seen": "[1, 2, 3]"}).ran


@pytest.mark.parametrize("said", [b"", b"[]", b"{", b'{"a": 1}', b'[1, {"thread_name": "MainThread"}]', b"[[[]]]"])
def test_what_is_no_answer_tells_nothing(said: bytes) -> None:
    assert of_main(said, 11, 3) == Digests()


def test_a_frame_without_variables_or_in_a_library_of_c_does_not_tell_that_it_came_back() -> None:
    assert (look({}).variables, bool(look({}).ran)) == ("", True), "of a program's own first lines none are told"
    assert look(LOOP, module="/usr/lib/libcudart.so.12").variables == ""
