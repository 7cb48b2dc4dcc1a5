"""Steps of a Slurm job: each node by the part that runs on it, and what srun's complaints mean."""

from __future__ import annotations

import pytest

from collectors.fleet.targets.chosen import Target
from collectors.fleet.targets.slurm import SlurmPart
from collectors.fleet.transport import Refused
from collectors.fleet.via.srun import srun

PARTS = (SlurmPart("3", "RUNNING", "gpu[1-2]"), SlurmPart("4", "RUNNING", "big7,gpu2"))


def target(name: str) -> Target:
    return Target(name, name)


def test_each_node_by_its_own_part() -> None:
    way = srun(PARTS)
    words = way.words(target("gpu1"))
    assert words[:3] == ["srun", "--jobid=3", "--nodelist=gpu1"]
    assert words[-1] == "sh"
    assert {"--overlap", "--nodes=1", "--ntasks=1", "--mem=0", "--mpi=none"} <= set(words)
    assert not {"-u", "--unbuffered", "--pty"} & set(words[: words.index("env")])
    assert words[words.index("-u") + 1] == "SLURM_PROCID", "the shell is no rank"
    assert way.words(target("big7"))[1] == "--jobid=4"
    assert way.words(target("gpu2"))[1] == "--jobid=3"
    assert "--pty" in way.terminal(target("gpu2"))
    with pytest.raises(Refused, match="gpu9: the Slurm job has no such node"):
        way.words(target("gpu9"))
