"""Threads share one heap where glibc gives memory out."""

from __future__ import annotations

import asyncio
import ctypes
import platform
import subprocess
import sys

import pytest

from tui.running.heap import give_back, share_heap

MANY = """
import ctypes, re, threading
from tui.running.heap import give_back, share_heap
if {shared}:
    assert share_heap()
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, (ctypes.c_size_t,)
go = threading.Barrier(8)
def take():
    go.wait()
    for _ in range(2000):
        assert libc.malloc(4000)
    go.wait()
threads = [threading.Thread(target=take) for _ in range(8)]
for one in threads: one.start()
for one in threads: one.join()
# a heap of a thread begins at a multiple of 64 MB, and is whole there: what is used of it, and what is not
heaps = re.findall(r"^(\\w+)-\\w+ rw-p 00000000 00:00 0 *$", open("/proc/self/maps").read(), re.M)
print(sum(int(begin, 16) % (64 << 20) == 0 for begin in heaps))
"""


FREED = """
import asyncio, os
from tui.running.heap import give_back
def held():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
blocks = [bytes(60_000) for _ in range(800)]
last = bytes(60_000)
del blocks[:-1]
before = held()
assert asyncio.run(give_back())
print(before, held())
"""


def heaps(shared: bool) -> int:
    done = subprocess.run(
        [sys.executable, "-c", MANY.format(shared=shared)], capture_output=True, text=True, check=True
    )
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="no glibc")
def test_threads_get_no_heaps_of_their_own() -> None:
    assert heaps(shared=False) > heaps(shared=True)


def test_without_glibc_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: object())
    assert not share_heap()
    assert not asyncio.run(give_back())


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="no glibc")
def test_what_was_freed_in_the_middle_is_given_back() -> None:
    done = subprocess.run([sys.executable, "-c", FREED], capture_output=True, text=True, check=True)
    held, after = map(int, done.stdout.split())
    assert held - after > 8 << 20
