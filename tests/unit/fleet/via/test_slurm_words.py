"""Slurm's commands, without what the environment of an allocation would add to them."""

from __future__ import annotations

import pytest

from collectors.fleet.targets import slurm
from collectors.fleet.targets.chosen import Target
from collectors.fleet.targets.slurm import SlurmComponent, slurm_words
from collectors.fleet.via.srun import Srun


def test_options_in_the_environment_are_left_out() -> None:
    env = {"SLURM_LABELIO": "1", "SRUN_CONTAINER": "x", "SQUEUE_USERS": "eve", "SLURM_CONF": "/etc/s", "HOME": "/"}
    words = ["-u", "SLURM_LABELIO", "-u", "SQUEUE_USERS", "-u", "SRUN_CONTAINER"]
    assert slurm_words(["squeue", "-a"], env) == ["env", *words, "squeue", "-a"]


def test_without_any_the_command_stays_as_it_is() -> None:
    assert slurm_words(["squeue"], {"SLURM_CONF": "/etc/s", "SLURM_JWT": "x", "PATH": "/bin"}) == ["squeue"]


def test_steps_and_questions_go_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_LABELIO", "1")
    way = Srun([SlurmComponent("3", "3", "RUNNING", "gpu1", "eve")])
    for words in (way.words(Target("gpu1", "gpu1")), way.terminal(Target("gpu1", "gpu1"))):
        assert words[:3] == ["env", "-u", "SLURM_LABELIO"]
        assert "srun" in words
    complaints: list[str] = []
    assert slurm._ask(["printenv", "SLURM_LABELIO"], complaints) == ""
    assert complaints == ["printenv ended with status 1"]
