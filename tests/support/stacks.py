"""Real dumps (see ``tests/fixtures/stacks``) and stacks made by hand, as the diagnosis gets them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec

from collectors.samples.stacks import Frame, StackDump, ThreadStack

FIXTURES = Path(__file__).parents[1] / "fixtures" / "stacks"
_decode = msgspec.json.Decoder(tuple[str, StackDump]).decode

TORCH = "/opt/env/lib/python3.11/site-packages/torch"
STDLIB = "/usr/lib/python3.11"
SCRIPT = "/home/ada/train/train.py"


def scenario_names() -> list[str]:
    """Names of all captured scenarios."""
    return sorted(path.stem for path in FIXTURES.glob("*.jsonl"))


@cache
def scenario(name: str) -> tuple[tuple[StackDump, ...], ...]:
    """Dumps of one captured scenario, by rank: the rank's own and its helpers'."""
    lines = (FIXTURES / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    by_rank: dict[int, list[StackDump]] = {}
    for line in lines:
        dump = _decode(line)[1]
        by_rank.setdefault(dump.rank_pid, []).append(dump)
    return tuple(tuple(dumps) for dumps in by_rank.values())


def frame(text: str, **arguments: str) -> Frame:
    """A frame from ``name path:line``; native from ``name library.so``."""
    name, _, place = text.rpartition(" ")
    path, colon, line = place.rpartition(":")
    if not colon:
        return Frame(name, place, 0, True)
    return Frame(name, path, int(line), False, arguments)


def thread(*frames: str | Frame, name: str = "MainThread", tid: int = 100, gil: bool = False) -> ThreadStack:
    """A thread whose frames are given innermost first."""
    made = [item if isinstance(item, Frame) else frame(item) for item in frames]
    return ThreadStack(tid, tid, name, True, gil, made)


def dump(
    *threads: ThreadStack,
    pid: int = 100,
    rank_pid: int = 0,
    at: float = 1000.0,
    cpu: float = 5.0,
    state: str = "S",
    syscall: str = "futex",
    waiting_on: str = "",
    wchan: str = "",
    error: str = "",
) -> StackDump:
    """A dump of a process; of a rank's own unless ``rank_pid`` is given."""
    method = "none" if error else "nonblocking"
    return StackDump(
        pid, rank_pid or pid, at, method, state, wchan, syscall, cpu, error, list(threads), waiting_on
    )  # fmt: skip


def main_dump(*frames: str | Frame, at: float = 1000.0, cpu: float = 5.0, syscall: str = "futex") -> StackDump:
    """A dump of a main thread alone, in a program that began at ``<module>``."""
    return dump(thread(*frames, f"<module> {SCRIPT}:90"), at=at, cpu=cpu, syscall=syscall)
