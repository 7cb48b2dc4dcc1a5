"""Steps of a Slurm job: each node by the part that runs on it, and what srun's complaints mean."""

from __future__ import annotations

import getpass
import os

import pytest

from collectors.fleet.targets.chosen import Target
from collectors.fleet.targets.slurm import SlurmComponent
from collectors.fleet.transport import Refused
from collectors.fleet.via.srun import Srun

PARTS = (
    SlurmComponent("3", "3+0", "RUNNING", "gpu[1-2]", "eve"),
    SlurmComponent("4", "3+1", "RUNNING", "big7,gpu2", "eve"),
)


def target(name: str) -> Target:
    return Target(name, name)


def test_each_node_by_its_own_part() -> None:
    way = Srun(PARTS)
    words = way.words(target("gpu1"))
    assert words[:4] == ["srun", "--jobid=3", "--het-group=0", "--nodelist=gpu1"]
    assert words[-1] == "sh"
    assert {"--overlap", "--nodes=1", "--ntasks=1", "--mem=0", "--mpi=none"} <= set(words)
    assert not {"-u", "--unbuffered", "--pty"} & set(words[: words.index("env")])
    assert way.words(target("big7"))[1:3] == ["--jobid=3", "--het-group=1"]
    task = Srun([SlurmComponent("5", "2_1", "RUNNING", "gpu3", "eve")])
    assert task.words(target("gpu3"))[1:3] == ["--jobid=5", "--nodelist=gpu3"], "srun takes no 2_1"
    assert way.words(target("gpu2"))[1] == "--jobid=3"
    assert "--pty" in way.terminal(target("gpu2"))
    with pytest.raises(Refused, match="gpu9: the Slurm job has no such node"):
        way.words(target("gpu9"))


def test_the_shell_is_no_rank() -> None:
    words = Srun(PARTS).words(target("gpu1"))
    assert words[words.index("-u") + 1] == "SLURM_PROCID"


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("srun: error: Unable to confirm allocation for job 9: Invalid job id specified\nsrun: Expired or", "is over"),
        ("srun: error: Unable to create step for job 5: Access/permission denied", "owner"),
        ("srun: Job 7 step creation temporarily disabled, retrying (Requested nodes are busy)", "--overlap"),
        ("srun: error: Unable to contact slurm controller (connect failure)", "slurmctld"),
        ("srun: something new", ""),
    ],
)
def test_advice(said: str, advice: str) -> None:
    found = Srun(PARTS).advice(said)
    assert advice in found
    assert bool(advice) == bool(found)


def test_whose_job_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(getpass, "getuser", lambda: "mallory")
    assert "a job of eve need that user" in Srun(PARTS).needs()
    monkeypatch.setattr(getpass, "getuser", lambda: "eve")
    assert Srun(PARTS).needs() == ""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(getpass, "getuser", lambda: "root")
    assert Srun(PARTS).needs() == ""
