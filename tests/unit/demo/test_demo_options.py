"""What can be asked of a demo, and what it makes of it."""

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
    ("asked", "said"),
    [
        ({"ranks": 3}, "3 ranks cannot be shared evenly by 2 nodes"),
        ({"fault_rank": 4}, "there is no rank 4 among 4"),
        ({"fault": "gremlins"}, "no fault is called gremlins"),
        ({"script": "pretrain"}, "no job is called pretrain"),
    ],
)
def test_what_cannot_be_shown_is_refused(asked: dict[str, int], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        DemoOptions(**asked)  # type: ignore[arg-type]


def test_consecutive_ranks_share_a_node() -> None:
    options = DemoOptions(nodes=2, ranks=4)
    assert [(place.node, place.local) for place in ranks.places(options)] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert options.node_names == ("node0", "node1")


def test_a_rank_is_told_who_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_DEBUG", "INFO")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "other")
    environment = ranks.environment(DemoOptions(), ranks.RankSeat(3, 1, 1), 4711, tmp_path)
    assert (environment["RANK"], environment["LOCAL_RANK"], environment["WORLD_SIZE"]) == ("3", "1", "4")
    assert environment[ranks.NODE] == environment["HANGTOP_DEMO_DEVICES"] == str(tmp_path)
    assert environment["TORCH_FR_DUMP_TEMP_FILE"] == str(tmp_path.parent / "recorder_")
    assert not {"NCCL_DEBUG", "TORCHELASTIC_RUN_ID"} & environment.keys()


def test_a_fault_of_a_device_is_none_of_the_job(tmp_path: Path) -> None:
    words = ranks.command(DemoOptions(fault="gpu-lost"), tmp_path)
    assert words[words.index("--fault") + 1] == ""
    words = ranks.command(DemoOptions(fault="lock"), tmp_path)
    assert words[words.index("--fault") + 1] == "lock"


@pytest.mark.parametrize(("fault", "job"), [("", "train"), ("lock", "train"), ("mismatch", "trainer")])
def test_the_job_is_one_that_can_have_the_fault(fault: str, job: str) -> None:
    assert DemoOptions(fault=fault).job == job


def test_every_fault_of_a_device_can_be_planted(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.install()
    for fault, _ in DEVICE_FAULTS.values():
        bench.plant(fault.format(local=1))
    assert not DEVICE_FAULTS.keys() & JOB_FAULTS.keys()


def test_without_torch_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(DemoError, match=r"hangtop demo needs torch: pip install 'hangtop\[demo\]'"):
        Demo()
    done = CliRunner().invoke(command, [])
    assert (done.exit_code, done.output) == (1, "Error: hangtop demo needs torch: pip install 'hangtop[demo]'\n")


def test_the_command_lists_the_faults() -> None:
    done = CliRunner().invoke(command, ["--faults"])
    assert done.exit_code == 0
    assert "dataloader " in done.output
    assert "gpu-lost " in done.output


def test_the_command_refuses_what_cannot_be_shown() -> None:
    done = CliRunner().invoke(command, ["--ranks", "3"])
    assert done.exit_code == 2
    assert "3 ranks cannot be shared evenly by 2 nodes" in done.output
