"""Pages of ranks, found among their open files and read: a real process, and bytes that somebody made up."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from collectors.node.nccl.recorder import WantedDump
from collectors.node.processes.pages import PageSource, find, read_pulse, recorder_pipe
from collectors.node.source import Shared
from collectors.samples import page as layout
from collectors.samples.logs import StepCount
from collectors.samples.ranks import InsidePulse, InsideResult
from tests.support.made import process

JOB = """
import sys
import hangtop.inside
hangtop.inside.start(tracer=False, quiet=True)
print("up", flush=True)
for line in sys.stdin:
    exec(line)
    print("done", flush=True)
"""


@pytest.fixture
def job() -> Iterator[subprocess.Popen[str]]:
    """A rank that runs the lines of Python that it is sent."""
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3]), "RANK": "3", "WORLD_SIZE": "4"}
    with subprocess.Popen([sys.executable, "-c", JOB], stdin=-1, stdout=-1, env=env, text=True) as started:
        assert started.stdout
        assert started.stdout.readline() == "up\n"
        yield started
        started.kill()


@pytest.fixture
def do(job: subprocess.Popen[str]) -> Callable[[str], None]:
    def run(line: str) -> None:
        assert job.stdin
        assert job.stdout
        job.stdin.write(f"{line}\n")
        job.stdin.flush()
        assert job.stdout.readline()

    return run


@pytest.fixture
def source(job: subprocess.Popen[str]) -> PageSource:
    shared = Shared()
    shared.ranks = (process(3, job.pid, uid=os.getuid()),)
    made = PageSource(shared)
    assert list(made.read(0.0)) == [InsidePulse(job.pid, None, None, "", None)]
    return made


def test_step_and_phase_of_a_rank(source: PageSource, do: Callable[[str], None]) -> None:
    do("hangtop.inside.step(41); hangtop.inside.phase('data')")
    pulse, steps = source.read(0.0)
    assert isinstance(pulse, InsidePulse)
    assert (pulse.step, pulse.phase) == (41, "data")
    assert isinstance(steps, StepCount)
    assert (steps.value, steps.grown, steps.at) == (41.0, 0, pulse.step_at)
    do("hangtop.inside.step(44)")
    assert [sample.grown for sample in source.read(0.0) if isinstance(sample, StepCount)] == [3]


@pytest.mark.parametrize("ends", [False, True])
def test_a_page_that_is_taken_away_and_one_whose_process_ends(
    source: PageSource, do: Callable[[str], None], ends: bool
) -> None:
    pid = source.shared.ranks[0].pid
    if ends:
        source.shared.ranks = ()
    else:
        do("hangtop.inside.stop()")
    assert list(source.read(5.0)) == [InsidePulse(pid, None, None, "", None)]
    assert list(source.read(6.0)) == []


def test_results_of_checks_are_told(source: PageSource, do: Callable[[str], None]) -> None:
    finding = {"kind": "replicas_differ", "severity": "critical", "summary": "w differs", "ranks": [1],
               "evidence": ["a", "b"], "advice": "x"}  # fmt: skip
    row = {"check": "same", "at": 1.8e9, "ranks": [0, 1], "ok": False, "seconds": 0.5, "summary": "1",
           "findings": [finding]}  # fmt: skip
    do(f"hangtop.inside.steps.telling.page.answer({json.dumps([row]).encode()!r})")
    (result,) = [sample for sample in source.read(0.0) if isinstance(sample, InsideResult)]
    assert (result.check, result.ok, result.findings[0].ranks) == ("same", False, [1])


def test_the_pipe_that_a_rank_opened_itself_and_whose_page_it_is(job: subprocess.Popen[str]) -> None:
    stem = recorder_pipe(job.pid)
    assert stem.endswith("/fr_pipe_")
    assert WantedDump(3, job.pid, 0.0).pipe == f"{stem}3.pipe"
    own = find("/proc", job.pid, os.getuid())
    assert own is not None
    assert own.read().startswith(layout.MAGIC)
    assert own._replace(uid=os.getuid() + 1).read() == b"", "it is another user's by the time that it is read"
    assert find("/proc", job.pid, os.getuid() + 1) is None, "a page of another user is none"


def page(**words: float) -> bytes:
    data = bytearray(layout.SIZE)
    data[:8] = layout.MAGIC
    given: dict[str, Any] = {"VERSION_WORD": layout.VERSION, "SIZE_WORD": layout.SIZE, "PID": 7, "STEP": -1, **words}
    for name, value in given.items():
        struct.pack_into("=q" if isinstance(value, int) else "=d", data, 8 * getattr(layout, name), value)
    return bytes(data)


NOTHING = InsidePulse(12, None, None, "", None)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ({}, NOTHING),
        ({"VERSION_WORD": 3}, None),
        ({"SIZE_WORD": 4096}, None),
        ({"PID": 8}, None),
        ({"STEP": 7, "PHASE": 2}, NOTHING),
        ({"STEP": 7, "PHASE": 2, "STEP_AT": 1.8e9, "PHASE_AT": 1.8e9}, InsidePulse(12, 7, 1.8e9, "forward", 1.8e9)),
    ],
    ids=["empty", "another version", "another size", "another process's", "a write under way", "step and phase"],
)
def test_what_the_bytes_of_a_page_say(words: dict[str, float], told: InsidePulse | None) -> None:
    assert read_pulse(page(**words), 12, 7) == told
