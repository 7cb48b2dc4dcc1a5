"""Where logs lie: behind pipes, where services are configured, and where ranks left them that have ended."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from collectors.node.logs.following import ended
from collectors.node.logs.following.ended import RankNumbers, WantedLog, logs_of_missing, missing, named_alike
from collectors.node.logs.following.pipes import files_behind
from collectors.node.logs.following.places import LogPlaces
from collectors.node.logs.following.source import LogSource
from collectors.node.ranks.search import ONLY
from collectors.node.shared import Shared
from collectors.node.source import Absent
from collectors.samples.control import ENDED, Settings
from collectors.samples.logs import LogEvent
from collectors.samples.ranks import RankProcess
from tests.support.fake_proc import FakeProc
from tests.support.made import process
from tests.unit.logs.test_follow import TRACEBACK, Looker, rank_process

CARRIER = """
import os, sys
name, source, target = sys.argv[1], int(sys.argv[2]), sys.argv[3]
open("/proc/self/comm", "w").write(name)
nothing = os.open("/dev/null", os.O_RDONLY)
os.dup2(nothing, 0)
out = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
os.dup2(out, 1)  # ends the pipe to the test, which waits for that
while True:
    data = os.read(source, 4096)
    if not data:
        break
    os.write(out, data)
"""
"""Reads a pipe by another number than 0, as slurmstepd, conmon and containerd's shim do."""


@contextmanager
def carrier(name: str, source: int, target: Path) -> Iterator[int]:
    words = [sys.executable, "-c", CARRIER, name, str(source), str(target)]
    with subprocess.Popen(words, pass_fds=[source], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.read() == b""
        try:
            yield process.pid
        finally:
            process.kill()


def pipe_of(descriptor: int) -> str:
    return str(Path(f"/proc/self/fd/{descriptor}").readlink())


def test_a_carrier_that_reads_by_any_descriptor_is_found(tmp_path: Path) -> None:
    read, write = os.pipe()
    with carrier("slurmstepd", read, tmp_path / "slurm-7.out"):
        os.close(read)
        assert files_behind(os.getpid(), pipe_of(write), "") == [str(tmp_path / "slurm-7.out")]
    os.close(write)


def test_others_who_hold_the_pipe_are_no_readers(tmp_path: Path) -> None:
    """Ranks that write to one pipe, and programs that carry nobody's output, lead to no file of theirs."""
    read, write = os.pipe()
    with carrier("game", read, tmp_path / "score"), carrier("tee", write, tmp_path / "other"):
        assert files_behind(1, pipe_of(write), "") == []
    os.close(read)
    os.close(write)


def test_an_ancestor_that_reads_is_found_whatever_its_name(tmp_path: Path) -> None:
    read, write = os.pipe()
    with subprocess.Popen(["sleep", "60"]) as rank, (tmp_path / "launcher.log").open("w"):
        assert files_behind(rank.pid, pipe_of(write), ""), "pytest, the parent, holds the end that reads"
        rank.kill()
    os.close(read)
    os.close(write)


def test_runtimes_keep_logs_by_the_id_of_the_container(tmp_path: Path) -> None:
    name = "ab" * 32
    docker = tmp_path / "var/lib/docker/containers" / name
    docker.mkdir(parents=True)
    (docker / f"{name}-json.log").write_text("")
    kubelet = tmp_path / "var/log/containers"
    kubelet.mkdir(parents=True)
    (kubelet / f"rank-0_train_main-{name}.log").write_text("")
    root = str(tmp_path)
    found = files_behind(os.getpid(), "pipe:[1]", name, root=root)
    assert found == [str(docker / f"{name}-json.log"), str(kubelet / f"rank-0_train_main-{name}.log")]
    assert files_behind(os.getpid(), "pipe:[1]", "job_17/step_0", root=root) == []
    assert files_behind(os.getpid(), "pipe:[1]", "*" * 64, root=root) == []


SWITCH = "[Jul 23 2024 07:53:55] [ERROR] [tid 841] detected NVSwitch fatal error 20034 on fid 0\n"
GPU = "[Oct 13 2025 18:14:38] [ERROR] [tid 202] Fabric Manager detected GPU NVL Fatal error on :\n"


def test_its_file_is_followed_where_it_is_configured(tmp_path: Path) -> None:
    assert list(LogPlaces(root=str(tmp_path)).of_services(0.0)) == []
    usual = tmp_path / "var/log/fabricmanager.log"
    usual.parent.mkdir(parents=True)
    usual.write_text(SWITCH)
    assert [wanted.path for wanted in LogPlaces(root=str(tmp_path)).of_services(0.0)] == [str(usual)]
    configuration = tmp_path / "usr/share/nvidia/nvswitch/fabricmanager.cfg"
    configuration.parent.mkdir(parents=True)
    configuration.write_text("# LOG_FILE_NAME=/no\nLOG_LEVEL=4\nLOG_FILE_NAME=/var/log/fm/own.log\n")
    assert list(LogPlaces(root=str(tmp_path)).of_services(0.0)) == []
    (tmp_path / "var/log/fm").mkdir()
    (tmp_path / "var/log/fm/own.log").write_text(GPU)
    places = LogPlaces(root=str(tmp_path))
    assert [Path(wanted.path).name for wanted in places.of_services(0.0)] == ["own.log"]
    (wanted,) = places.of_services(1.0)
    assert (wanted.rank, wanted.stream, wanted.why) == (None, "extra", "")


def ranks(*numbers: int, first: int | None = 0, **fields: Any) -> list[RankProcess]:
    """Ranks of a node whose first one is ``first``; None where nothing tells which number each has there."""
    given = {"started": 0.0, **fields}
    return [process(number, local_rank=None if first is None else number - first, **given) for number in numbers]


def test_who_should_run_here_is_told_by_local_ranks() -> None:
    found = list(missing(ranks(4, 5, 7, first=4)))
    assert [(place.rank, place.local) for place, _ in found] == [(6, 2)]
    assert [rank.rank for rank in found[0][1]] == [5, 7, 4]


def test_without_local_ranks_those_between_are_missing() -> None:
    assert [place.rank for place, _ in missing(ranks(2, 5, first=None, local_world_size=None))] == [3, 4]


def test_ranks_of_two_runs_are_no_neighbours() -> None:
    mixed = [*ranks(0, 1, run_id="a", local_world_size=2), *ranks(0, run_id="b", local_world_size=2)]
    assert [(place.rank, beside[0].run_id) for place, beside in missing(mixed)] == [(1, "b")]


@pytest.mark.parametrize(
    ("path", "own", "theirs", "found"),
    [
        ("/logs/rank3.err", RankNumbers(3, 1), RankNumbers(2, 0), "/logs/rank2.err"),
        ("/logs/rank003.err", RankNumbers(3, 1), RankNumbers(2, 0), "/logs/rank002.err"),
        ("/logs/rank9.err", RankNumbers(9, 1), RankNumbers(10, 2), "/logs/rank10.err"),
        ("/logs/4711_12.out", RankNumbers(12, 4), RankNumbers(13, 5), "/logs/4711_13.out"),
        ("/elastic/attempt_0/1/stderr.log", RankNumbers(5, 1), RankNumbers(4, 0), "/elastic/attempt_0/0/stderr.log"),
        ("/run7/7/rank7.log", RankNumbers(7, 7), RankNumbers(6, 6), "/run7/7/rank6.log"),
    ],
)
def test_names(path: str, own: RankNumbers, theirs: RankNumbers, found: str) -> None:
    assert found in list(named_alike(path, own, theirs))


def wanted(path: Path, rank: int, stream: str = "stderr") -> WantedLog:
    return WantedLog(str(path), 1000 + rank, rank, stream, "")


def files(folder: Path, *names: str) -> list[Path]:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("iter 3\n")
    return [folder / name for name in names]


def test_the_log_of_the_rank_that_is_gone_is_found(tmp_path: Path) -> None:
    mine, theirs = files(tmp_path, "rank3.err", "rank2.err")
    here = ranks(3, first=2, local_world_size=2, started=time.time() - 60)
    found = list(logs_of_missing(here, [wanted(mine, 3)]))
    assert found == [WantedLog(str(theirs), None, 2, "stderr", "", here[0].uid)]


def test_no_log_is_taken_from_before_of_another_owner_or_of_a_rank_that_is_here(tmp_path: Path) -> None:
    mine, old = files(tmp_path, "rank3.err", "rank2.err")
    here = ranks(3, first=2, local_world_size=2, started=time.time() - 60)
    os.utime(old, (time.time() - 3600,) * 2)
    assert list(logs_of_missing(here, [wanted(mine, 3)])) == []
    os.utime(old)
    assert len(list(logs_of_missing(here, [wanted(mine, 3)]))) == 1
    assert list(logs_of_missing(here, [wanted(mine, 3), WantedLog(str(old), 9, None, "stdout", "")])) == []
    if os.geteuid() == 0:
        os.chown(old, 4711, 4711)
        assert list(logs_of_missing(here, [wanted(mine, 3)])) == []


def test_a_name_that_says_another_rank_is_not_taken(tmp_path: Path) -> None:
    mine, _ = files(tmp_path, "job3/rank1.err", "job2/rank1.err")
    here = ranks(3, first=2, local_world_size=2, started=time.time() - 60)
    assert list(logs_of_missing(here, [wanted(mine, 3)])) == []


def test_what_is_no_file_is_not_opened(tmp_path: Path) -> None:
    (mine,) = files(tmp_path, "rank3.err")
    os.mkfifo(tmp_path / "rank2.err")
    here = ranks(3, first=2, local_world_size=2, started=time.time() - 60)
    assert list(logs_of_missing(here, [wanted(mine, 3)])) == []


def test_nobody_is_missing_where_all_are_here(tmp_path: Path) -> None:
    one, two, _ = files(tmp_path, "rank0.err", "rank1.err", "rank2.err")
    here = ranks(0, 1, local_world_size=2, started=time.time() - 60)
    assert list(logs_of_missing(here, [wanted(one, 0), wanted(two, 1)])) == []


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


def mine(folder: Path) -> list[str]:
    return [path for path in ended.left_behind(time.time()) if path.startswith(str(folder))]


def test_only_the_last_attempt_of_a_recent_run_counts(here: Path) -> None:
    run = here / "torchelastic_abc" / "none_x"
    wrote(run / "attempt_9" / "0" / "stderr.log", "earlier\n")
    last = wrote(run / "attempt_10" / "0" / "stderr.log", "last\n", 30)
    error = wrote(run / "attempt_10" / "1" / "error.json", "{}", 40)
    wrote(run / "attempt_10" / "1" / "stdout.log", "")
    wrote(run / "attempt_\u00b2" / "0" / "stderr.log", "of no launcher\n")
    wrote(here / "torchelastic_old" / "none_y" / "attempt_0" / "0" / "stderr.log", "long ago\n", 7200)
    assert mine(here) == [last, error]


def test_a_launcher_that_still_lives_is_known_by_its_command(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proc = FakeProc(here / "proc")
    proc.add(7, argv=["/usr/bin/python3", "-u", "/opt/venv/bin/torchrun", "train.py"])
    proc.add(8, argv=["python3", "-m", "torch.distributed.run", "train.py"], env={"NODE": "b"})
    proc.add(9, argv=["vim", "torchrun.md"])
    assert list(ended.launchers(str(here / "proc"))) == [7, 8]
    monkeypatch.setenv(ONLY, "NODE=b")
    assert list(ended.launchers(str(here / "proc"))) == [8]


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
    log = here / "torchelastic_abc" / "none_x" / "attempt_0" / "0" / "stderr.log"
    wrote(log, TRACEBACK % "of an earlier run")
    with pytest.raises(Absent):
        Looker().look()

    def told(looker: Looker) -> list[str]:
        samples = [sample for _ in range(5) for sample in looker.look()]  # others' logs may take all of one look's time
        events = [sample for sample in samples if isinstance(sample, LogEvent)]
        return [str(event.data["message"]) for event in events if event.kind == EXCEPTION]

    assert told(Looker(rank_process(os.getpid(), 0), log_globs=[ENDED])) == []
    assert "of an earlier run" in told(Looker(log_globs=[ENDED]))
