"""How long a process will sleep yet, as its own call tells."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from collectors.node.processes import process_state, sleeps

LATE = sys.version_info >= (3, 11)


@pytest.mark.skipif(not LATE, reason="sleeps by a length of time before CPython 3.11")
@pytest.mark.parametrize(("seconds", "least", "most"), [("1e6", 999_900, 1_000_000), ("90", 30, 90)])
def test_a_sleep_tells_how_long_it_will_last_yet(seconds: str, least: int, most: int) -> None:
    process = subprocess.Popen([sys.executable, "-S", "-c", f"import time; time.sleep({seconds})"])
    try:
        end = time.monotonic() + 30
        while (seen := process_state.of(process.pid)) is None or seen.syscall != sleeps.CALL:
            assert time.monotonic() < end, seen
            time.sleep(0.02)
        words = seen.waiting_on.split()
        assert words[:3] + words[4:] == "its clock for s more".split()
        assert least <= int(words[3]) <= most
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    "words",
    [[], ["0x1"], ["0x1", "0x1", "0x0"], ["0x1", "0x0", "0x7fff0000"], ["0x0", "0x1", "0x7fff0000"], ["x", "y", "z"],
     ["0x1", "0x1", "0xffffffffffffffffff"]],
)  # fmt: skip
def test_what_cannot_be_read_or_is_no_time_to_wait_for_says_nothing(words: list[str]) -> None:
    assert sleeps.left("/proc/self", words) == ""


def test_who_is_in_a_time_of_its_own_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "timens_offsets").write_text("monotonic 86400 0\nboottime 86400 0\n")
    (tmp_path / "mem").write_bytes(b"\x7f" * 64)
    assert sleeps.left(str(tmp_path), ["0x1", "0x1", "0x0"]) == ""
