"""What Slurm says of a job: all of its parts by their own numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectors.fleet.targets.chosen import TargetError
from collectors.fleet.targets.slurm import SlurmPart, parts_of_job, read_parts

# As Slurm 22.05.8 printed it here: an array job with two tasks, the second of them first.
ARRAY = """\
JobId=2 ArrayJobId=2 ArrayTaskId=2 JobName=a b NodeList=evil JobState=DONE
   UserId=eve(1000) GroupId=eve(1000) MCS_label=N/A
   JobState=RUNNING Reason=None Dependency=(null)
   ReqNodeList=(null) ExcNodeList=(null)
   NodeList=node1
   BatchHost=node1
   StdErr=/home/eve/my logs/arr-2_2-%t.err
   StdIn=/dev/null
   StdOut=/home/eve/my logs/arr-2_2-%t.log

JobId=5 ArrayJobId=2 ArrayTaskId=1 JobName=a.sh
   JobState=RUNNING Reason=None Dependency=(null)
   NodeList=node[3-4]
   StdErr=/dev/null
   StdOut=/dev/null
"""
PENDING = """\
JobId=3 JobName=h.sh
   JobState=PENDING Reason=Priority Dependency=(null)
   NodeList=
"""


@pytest.fixture
def scontrol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program of the test's, to be filled."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (tmp_path / "scontrol").touch()
    (tmp_path / "scontrol").chmod(0o755)
    return tmp_path / "scontrol"


def test_every_part_of_an_array() -> None:
    logs = ("/home/eve/my logs/arr-2_2-*.log", "/home/eve/my logs/arr-2_2-*.err")
    assert read_parts(ARRAY) == (
        SlurmPart("2", "RUNNING", "node1", logs), SlurmPart("5", "RUNNING", "node[3-4]")
    )  # fmt: skip


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (f"echo '{PENDING}'", "it is PENDING"),
        ("echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1", "Invalid job id specified"),
        ("exit 1", "Slurm does not know it"),
    ],
)
def test_a_job_without_nodes_says_why(scontrol: Path, body: str, why: str) -> None:
    scontrol.write_text(f"#!/bin/sh\n{body}\n")
    with pytest.raises(TargetError, match=why):
        parts_of_job("3")


def test_a_job_is_asked_for(scontrol: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scontrol.write_text(f"#!/bin/sh\n[ \"$*\" = 'show job 3' ] && echo '{PENDING}{ARRAY}'\n")
    assert [part.number for part in parts_of_job("3")] == ["2", "5"], "the part without nodes is left out"
    for word in ("17; rm", "", "-M", "x"):
        with pytest.raises(TargetError, match="is no Slurm job id"):
            parts_of_job(word)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(TargetError, match="there is no scontrol here"):
        parts_of_job("17")
