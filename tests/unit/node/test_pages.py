"""Pages of ranks, found among their open files and read: real processes, and bytes that somebody made up."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from collectors.node.processes.pages import PageSource, find, read_pulse, told_pipe
from collectors.node.source import Shared
from collectors.samples import page as layout
from collectors.samples.inside import InsideGone, InsidePulse, InsideResult
from collectors.samples.logs import StepCount
from tests.support.made import process

ROOT = Path(__file__).parents[3]

JOB = """
import os, sys
import hangtop.inside
hangtop.inside.start(tracer=False, quiet=True)
print("up", flush=True)
for line in sys.stdin:
    exec(line)
    print("done", flush=True)
"""


class Job(NamedTuple):
    process: subprocess.Popen[str]

    def do(self, line: str) -> None:
        """Run one line of Python there."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline()


@contextmanager
def running(script: str = JOB) -> Iterator[Job]:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "RANK": "3", "WORLD_SIZE": "4"}
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, text=True
    ) as started:
        assert started.stdout
        try:
            assert started.stdout.readline() == "up\n"
            yield Job(started)
        finally:
            started.kill()


def source_of(pid: int, rank: int = 3) -> PageSource:
    shared = Shared()
    shared.ranks = (process(rank, pid, uid=os.getuid()),)
    return PageSource(shared)


def test_step_and_phase_of_a_rank() -> None:
    with running() as job:
        pid = job.process.pid
        source = source_of(pid)
        assert list(source.look(0.0)) == [InsidePulse(pid, None, None, "", None)]
        job.do("hangtop.inside.step(41); hangtop.inside.phase('data')")
        pulse, steps = source.look(0.0)
        assert isinstance(pulse, InsidePulse)
        assert (pulse.step, pulse.phase) == (41, "data")
        assert isinstance(steps, StepCount)
        assert (steps.value, steps.grown, steps.at) == (41.0, 0, pulse.step_at)
        job.do("hangtop.inside.step(44)")
        assert [sample.grown for sample in source.look(0.0) if isinstance(sample, StepCount)] == [3]


def test_a_page_that_is_taken_away_and_one_whose_process_ends() -> None:
    with running() as job:
        source = source_of(job.process.pid)
        list(source.look(0.0))
        job.do("hangtop.inside.stop()")
        assert list(source.look(5.0)) == [InsideGone(job.process.pid, 5.0)]
        assert list(source.look(6.0)) == []
    with running() as job:
        source = source_of(job.process.pid)
        list(source.look(0.0))
        source.shared.ranks = ()
        assert list(source.look(7.0)) == [InsideGone(job.process.pid, 7.0)]


def test_results_of_checks_are_told() -> None:
    finding = {"kind": "replicas_differ", "severity": "critical", "summary": "w differs", "ranks": [1],
               "evidence": ["a", "b"], "advice": "x"}  # fmt: skip
    row = {"check": "same", "at": 1.8e9, "ranks": [0, 1], "ok": False, "seconds": 0.5, "summary": "1",
           "findings": [finding]}  # fmt: skip
    with running() as job:
        source = source_of(job.process.pid)
        list(source.look(0.0))
        job.do(f"hangtop.inside.steps.telling.page.answer({json.dumps([row]).encode()!r})")
        (result,) = [sample for sample in source.look(0.0) if isinstance(sample, InsideResult)]
        assert (result.check, result.ok, result.findings[0].ranks) == ("same", False, [1])
        assert [sample for sample in source.look(0.0) if isinstance(sample, InsideResult)] == [result]


def test_the_pipe_that_a_rank_opened_itself() -> None:
    from collectors.node.nccl import recorder

    with running() as job:
        stem = told_pipe(job.process.pid)
        assert stem.endswith("/fr_pipe_")
        wanted = recorder.WantedDump(3, job.process.pid, 0.0)
        assert wanted.pipe == f"{stem}3.pipe"


def test_a_page_of_another_user_is_none() -> None:
    with running() as job:
        pid = job.process.pid
        assert find("/proc", pid, os.getuid()) is not None
        assert find("/proc", pid, os.getuid() + 1) is None


def page(**words: int) -> bytes:
    data = bytearray(layout.SIZE)
    data[:8] = layout.MAGIC
    given = {"VERSION_WORD": layout.VERSION, "SIZE_WORD": layout.SIZE, "PID": 7, "STEP": -1, **words}
    for name, value in given.items():
        struct.pack_into("=q", data, 8 * getattr(layout, name), value)
    return bytes(data)


@pytest.mark.parametrize("words", [{"VERSION_WORD": 3}, {"VERSION_WORD": 0}, {"SIZE_WORD": 4096}])
def test_a_page_of_another_version_is_none(words: dict[str, int]) -> None:
    assert read_pulse(page(), 12, 7) is not None
    assert read_pulse(page(), 12, 8) is None  # another process's
    assert read_pulse(page(**words), 12, 7) is None


def test_a_write_that_is_under_way_tells_nothing() -> None:
    """It fills a pair with zeros, writes its number, then its time."""
    begun = {"STEP": 7, "PHASE": 2}
    assert read_pulse(page(**begun), 12, 7) == InsidePulse(12, None, None, "", None)
    data = bytearray(page(**begun))
    for place in (layout.STEP_AT, layout.PHASE_AT):
        struct.pack_into("=d", data, 8 * place, 1.8e9)
    assert read_pulse(bytes(data), 12, 7) == InsidePulse(12, 7, 1.8e9, "forward", 1.8e9)
