"""What can be asked of a demo, and what it makes of it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from click.testing import CliRunner

from hangtop.cli.demo import command
from hangtop.demo import ranks
from hangtop.demo.demo import Demo, DemoError
from hangtop.demo.devices.bench import Bench
from hangtop.demo.job.faults import FAULTS as JOB_FAULTS
from hangtop.demo.options import DEVICE_FAULTS, DemoOptions


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--ranks", "3"], "3 ranks cannot be shared evenly by 2 nodes"),
        (["--fault", "lock", "--fault-rank", "4"], "there is no rank 4 among 4"),
        (["--fault", "gremlins"], "'gremlins' is not one of"),
    ],
)
def test_what_cannot_be_shown_is_refused(words: list[str], said: str) -> None:
    done = CliRunner().invoke(command, words)
    assert (done.exit_code, said in done.output) == (2, True)


def test_the_command_lists_the_faults() -> None:
    done = CliRunner().invoke(command, ["--faults"])
    assert done.exit_code == 0
    assert [line.split()[0] for line in done.output.splitlines()] == [*JOB_FAULTS, *DEVICE_FAULTS]


def test_a_rank_is_told_who_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_DEBUG", "INFO")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "other")
    environment = ranks.environment(DemoOptions(), ranks.RankSeat(3, 1, 1), 4711, tmp_path)
    assert (environment["RANK"], environment["LOCAL_RANK"], environment["WORLD_SIZE"]) == ("3", "1", "4")
    assert environment[ranks.NODE] == environment["HANGTOP_DEMO_DEVICES"] == str(tmp_path)
    assert environment["TORCH_FR_DUMP_TEMP_FILE"] == str(tmp_path.parent / "recorder_")
    assert not {"NCCL_DEBUG", "TORCHELASTIC_RUN_ID"} & environment.keys()


def test_a_fault_of_a_device_is_planted_there_and_none_of_the_job(tmp_path: Path) -> None:
    for fault, given in (("gpu-lost", ""), ("lock", "lock")):
        words = ranks.command(DemoOptions(fault=fault), tmp_path)
        assert words[words.index("--fault") + 1] == given
    bench = Bench(tmp_path)
    bench.install()
    for planted, _ in DEVICE_FAULTS.values():
        bench.plant(planted.format(local=1))


def test_without_torch_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(DemoError, match=r"hangtop demo needs torch: pip install 'hangtop\[demo\]'"):
        Demo()
    done = CliRunner().invoke(command, [])
    assert (done.exit_code, done.output) == (1, "Error: hangtop demo needs torch: pip install 'hangtop[demo]'\n")
