"""Ranks that start, or are found, after the first look at a node: their logs are read before they may have ended."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path
from typing import NamedTuple

from collectors.node.logs.following.source import LogSource
from collectors.node.runner import Runner
from collectors.node.source import Shared
from collectors.samples.logs import LogFile
from collectors.samples.stream import SourceState
from tests.support.made import process


def looked(runner: Runner, finished: threading.Condition, moment: float) -> list[NamedTuple]:
    runner.ask(moment)
    with finished:
        assert finished.wait_for(lambda: not runner.busy, 60)
    return runner.harvest(moment)


def test_logs_are_looked_for_again_soon_while_no_rank_is_there(tmp_path: Path) -> None:
    log = tmp_path / "rank0.log"
    log.write_text("step 1\n")
    shared, finished = Shared(), threading.Condition()
    runner = Runner("logs", lambda: LogSource, shared, finished)
    [state] = looked(runner, finished, 10.0)
    assert isinstance(state, SourceState)
    assert state.state == "absent"
    with log.open("ab") as output, subprocess.Popen(["sleep", "600"], stdout=output, stderr=output) as rank:
        shared.ranks = (process(0, rank.pid, stdout=str(log), stderr=str(log)),)
        told = looked(runner, finished, 12.5)
        rank.kill()
    assert str(log) in {sample.path for sample in told if isinstance(sample, LogFile)}
