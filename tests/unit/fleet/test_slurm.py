"""What Slurm says of a job: all of its parts by their own numbers, and the leaf switches of nodes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from collectors.fleet.targets.chosen import TargetError
from collectors.fleet.targets.slurm import SlurmPart, leaf_switches, parts_of_job, read_parts
from collectors.fleet.transport import TransportError

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
TREE = """\
SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=gpu[01-02],LOGIN
SwitchName=leaf2 Nodes=gpu03
SwitchName=spine1 Level=1 LinkSpeed=1 Nodes=gpu[01-03] Switches=leaf[1-2]
SwitchName=broken Nodes=gpu[
SwitchName=huge Nodes=x[1-999999999]
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


async def test_scontrol_tells_leaf_switches_or_why_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "scontrol"
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    async def scontrol(script: str) -> None:
        await asyncio.to_thread(tool.write_text, f"#!/bin/sh\n{script}\n")
        await asyncio.to_thread(tool.chmod, 0o755)

    await scontrol(f"cat <<'E'\n{TREE}E")
    assert await leaf_switches() == {"gpu01": "leaf1", "gpu02": "leaf1", "login": "leaf1", "gpu03": "leaf2"}
    await scontrol("true")
    assert await leaf_switches() == {}
    await scontrol("echo 'slurm_load_topo error: Unable to contact' >&2; exit 1")
    with pytest.raises(TransportError, match="scontrol show topology: slurm_load_topo error: Unable to contact"):
        await leaf_switches()
