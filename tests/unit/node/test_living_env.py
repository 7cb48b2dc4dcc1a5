"""The environment as a process has it now, of real processes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from collectors.node.blocking import GuardedReader
from collectors.node.processes import living_env
from collectors.node.processes.environ import parse
from collectors.node.processes.living_env import LivingEnvironment, address_of_environ, read_environment

SETS = """
import os, sys
os.environ.update(RANK="3", WORLD_SIZE="8", LONG="x" * 9000)
os.environ.pop("WITHOUT")
print("set", flush=True)
sys.stdin.read()
"""
CLEARS = """
import ctypes, os, sys
for name, value in os.environ.items():
    os.putenv(name, value)
fields = open("/proc/self/stat").read().rpartition(")")[2].split()
ctypes.memset(int(fields[47]), 0, int(fields[48]) - int(fields[47]))
print("set", flush=True)
sys.stdin.read()
"""


class Started:
    """Programs that run until the end of the test."""

    def __init__(self) -> None:
        self._all: list[subprocess.Popen[bytes]] = []

    def __call__(self, words: Sequence[str], env: dict[str, str]) -> int:
        child = subprocess.Popen(words, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._all.append(child)
        assert child.stdout is not None
        child.stdout.readline()
        return child.pid

    def end(self) -> None:
        for child in self._all:
            child.kill()
            child.communicate()


@pytest.fixture
def start() -> Iterator[Started]:
    started = Started()
    yield started
    started.end()


def living(pid: int) -> dict[str, str]:
    return parse(LivingEnvironment("/proc", GuardedReader()).read(pid))


PYTHONS = [sys.executable, *(str(path) for path in Path("/usr/bin").glob("python3"))]
"""One with a shared libpython or a static one; Debian's keeps a copy of ``environ`` of its own."""


@pytest.mark.parametrize("python", PYTHONS)
def test_what_a_program_sets_after_its_start_is_seen(start: Started, python: str) -> None:
    pid = start([python, "-c", SETS], {"WITHOUT": "1", "KEPT": "yes"})
    assert "RANK" not in parse(Path(f"/proc/{pid}/environ").read_bytes())
    found = living(pid)
    assert (found["RANK"], found["WORLD_SIZE"], found["KEPT"]) == ("3", "8", "yes")
    assert "WITHOUT" not in found
    assert len(found["LONG"]) < 9000, "of what nobody needs whole a part is read"


def test_the_memory_of_the_start_may_be_overwritten(start: Started) -> None:
    pid = start([sys.executable, "-c", CLEARS], {"RANK": "5"})
    assert not Path(f"/proc/{pid}/environ").read_bytes().strip(b"\0")
    assert living(pid)["RANK"] == "5"


def test_an_address_that_leads_nowhere_gives_nothing(start: Started) -> None:
    pid = start([sys.executable, "-c", SETS], {"WITHOUT": "1"})
    with pytest.raises(OSError, match="Input/output"):
        read_environment("/proc", pid, 0x10)
    maps = Path(f"/proc/{pid}/maps").read_bytes()
    address = address_of_environ("/proc", pid, maps)
    assert address is not None
    inside = next(line for line in maps.splitlines() if b"libc" in line)
    read_environment("/proc", pid, int(inside.partition(b"-")[0], 16))  # bytes of code taken for pointers: no fault
    assert address_of_environ("/proc", pid, b"") in (None, address)


def test_one_that_calls_exec_is_found_anew(start: Started) -> None:
    reader = LivingEnvironment("/proc", GuardedReader())
    words = [sys.executable, "-c", SETS]
    program = f"import os, sys; print('before', flush=True); sys.stdin.readline(); os.execv({words[0]!r}, {words!r})"
    child = subprocess.Popen(
        [sys.executable, "-c", program], env={"WITHOUT": "1"}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert child.stdout is not None
        assert child.stdin is not None
        child.stdout.readline()
        assert "RANK" not in parse(reader.read(child.pid))
        child.stdin.write(b"\n")
        child.stdin.flush()
        child.stdout.readline()
        looks = [parse(reader.read(child.pid)).get("RANK") for _ in range(2)]
        assert looks[1] == "3"
    finally:
        child.kill()
        child.communicate()


def test_what_is_gone_or_no_program_gives_nothing(tmp_path: Path) -> None:
    assert LivingEnvironment("/proc", GuardedReader()).read(1 << 22) == b""
    for content in (b"", b"#!/bin/sh\n", b"\x7fELF\x02\x01" + b"\0" * 10, b"\x7fELF\x02\x01" + b"\xff" * 500):
        file = tmp_path / "program"
        file.write_bytes(content)
        assert living_env._variable(str(file)) is None
        file.unlink()
