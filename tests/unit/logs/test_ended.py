"""What a job leaves behind that ended a short while ago: which files are found, and what is said of them."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from collectors.node.logs.following import ended
from collectors.node.logs.following.source import LogSource
from collectors.node.ranks.search import ONLY
from collectors.node.shared import Shared
from collectors.node.source import Absent
from collectors.samples.control import ENDED, Settings
from collectors.samples.logs import LogEvent
from tests.support.fake_proc import FakeProc
from tests.unit.logs.test_follow import TRACEBACK, Looker, rank_process

EXCEPTION = "python.exception"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary folder and a home of our own; none of this machine's."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv(ONLY, raising=False)
    return tmp_path


def wrote(path: Path, text: str, ago: float = 60.0) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (time.time() - ago, time.time() - ago))
    return str(path)


def mine(folder: Path, *started: str) -> list[str]:
    return [path for path in ended.left_behind(started, time.time()) if path.startswith(str(folder))]


def test_only_the_last_attempt_of_a_recent_run_counts(here: Path) -> None:
    run = here / "torchelastic_abc" / "none_x"
    wrote(run / "attempt_9" / "0" / "stderr.log", "earlier\n")
    last = wrote(run / "attempt_10" / "0" / "stderr.log", "last\n", 30)
    error = wrote(run / "attempt_10" / "1" / "error.json", "{}", 40)
    wrote(run / "attempt_10" / "1" / "stdout.log", "")
    wrote(run / "attempt_\u00b2" / "0" / "stderr.log", "of no launcher\n")
    wrote(here / "torchelastic_old" / "none_y" / "attempt_0" / "0" / "stderr.log", "long ago\n", 7200)
    assert mine(here) == [last, error]


def test_what_nohup_and_slurm_call_their_output(here: Path) -> None:
    nohup = wrote(here / "home" / "nohup.out", "x\n", 9)
    slurm = wrote(here / "work" / "slurm-12.out", "x\n", 5)
    wrote(here / "work" / "notes.out", "x\n", 5)
    assert mine(here, str(here / "work")) == [slurm, nohup]


def test_a_launcher_that_still_lives_is_known_by_its_command(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proc = FakeProc(here / "proc")
    proc.add(7, argv=["/usr/bin/python3", "-u", "/opt/venv/bin/torchrun", "train.py"], cwd="/work")
    proc.add(8, argv=["python3", "-m", "torch.distributed.run", "train.py"], env={"NODE": "b"})
    proc.add(9, argv=["vim", "torchrun.md"])
    assert [tuple(one) for one in ended.launchers(str(here / "proc"))] == [(7, "/work"), (8, "/home/x")]
    monkeypatch.setenv(ONLY, "NODE=b")
    assert [one.pid for one in ended.launchers(str(here / "proc"))] == [8]


def test_one_look_tells_what_the_ended_job_said(here: Path) -> None:
    log = wrote(here / "run.log", "epoch 3\n" + TRACEBACK % "bad shard", 45)
    proc = FakeProc(here / "proc")
    proc.add(7, argv=["torchrun", "train.py"])
    proc.link(here / "proc" / "7" / "fd" / "1", log)
    source = LogSource(Shared(), str(here / "proc"))
    source.configure(Settings(1.0, 0.0, None, [ENDED], [], []))
    said = [sample for sample in source.look(time.time()) if isinstance(sample, LogEvent) and sample.source == log]
    assert [event.kind for event in said] == [EXCEPTION, "log.end"]
    assert said[1].text == "ValueError: bad shard"
    assert said[1].at == pytest.approx(time.time() - 45, abs=5)
    assert not [sample for sample in source.look(time.time()) if isinstance(sample, LogEvent)], "once"


def test_nothing_is_looked_for_unless_asked_and_while_a_rank_runs(here: Path) -> None:
    wrote(here / "home" / "nohup.out", TRACEBACK % "of an earlier run")
    with pytest.raises(Absent):
        Looker().look()

    def told(looker: Looker) -> list[str]:
        samples = [sample for _ in range(5) for sample in looker.look()]  # others' logs may take all of one look's time
        events = [sample for sample in samples if isinstance(sample, LogEvent)]
        return [str(event.data["message"]) for event in events if event.kind == EXCEPTION]

    assert told(Looker(rank_process(os.getpid(), 0), log_globs=[ENDED])) == []
    assert "of an earlier run" in told(Looker(log_globs=[ENDED]))
