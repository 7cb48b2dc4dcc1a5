"""What Slurm says of a job: all of its parts, by their own numbers, whichever command answers."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.fleet.targets.chosen import TargetError
from collectors.fleet.targets.slurm import SlurmComponent, log_glob, parts_of_job, read_scontrol, read_squeue

# As Slurm 22.05.8 printed it here: an array job with two tasks, the second of them first.
ARRAY = """\
JobId=2 ArrayJobId=2 ArrayTaskId=2 JobName=a b NodeList=evil JobState=DONE
   UserId=eve(1000) GroupId=eve(1000) MCS_label=N/A
   Priority=4294901758 Nice=0 Account=(null) QOS=(null)
   JobState=RUNNING Reason=None Dependency=(null)
   RunTime=00:00:02 TimeLimit=UNLIMITED TimeMin=N/A
   StartTime=2026-11-22T15:46:23 EndTime=Unknown Deadline=N/A
   ReqNodeList=(null) ExcNodeList=(null)
   NodeList=node1
   BatchHost=node1
   Command=/home/eve/a.sh
   StdErr=/home/eve/my logs/arr-2_2-%t.err
   StdIn=/dev/null
   StdOut=/home/eve/my logs/arr-2_2-%t.log
   Power=

JobId=5 ArrayJobId=2 ArrayTaskId=1 JobName=a.sh
   UserId=eve(1000) GroupId=eve(1000) MCS_label=N/A
   JobState=RUNNING Reason=None Dependency=(null)
   NodeList=node[3-4]
   StdErr=/dev/null
   StdOut=/dev/null
"""
HETEROGENEOUS = """\
JobId=3 HetJobId=3 HetJobOffset=0 JobName=h.sh
   HetJobIdSet=3-4
   JobState=RUNNING Reason=None Dependency=(null)
   NodeList=node1
JobId=4 HetJobId=3 HetJobOffset=1 JobName=h.sh
   HetJobIdSet=3-4
   JobState=PENDING Reason=Priority Dependency=(null)
   NodeList=
"""


def tool(folder: Path, name: str, body: str) -> None:
    script = folder / name
    script.write_text(f"#!/bin/sh\n{body}\n")
    script.chmod(0o755)


def test_every_part_of_an_array_and_of_a_heterogeneous_job() -> None:
    second, first = read_scontrol(ARRAY)
    assert (second.number, second.label, second.state, second.nodes, second.user) == (
        "2", "2_2", "RUNNING", "node1", "eve"
    )  # fmt: skip
    assert second.logs == ("/home/eve/my logs/arr-2_2-*.log", "/home/eve/my logs/arr-2_2-*.err")
    assert first == SlurmComponent("5", "2_1", "RUNNING", "node[3-4]", "eve")
    assert [(part.label, part.nodes, part.runs) for part in read_scontrol(HETEROGENEOUS)] == [
        ("3+0", "node1", True), ("3+1", "", False)
    ]  # fmt: skip


def test_squeue_where_scontrol_says_nothing() -> None:
    rows = "3|3+0|RUNNING|eve|gpu[1-2]\n4|3+1|RUNNING|eve|big7\n5|5|PENDING|eve|(null)\nnoise\n"
    assert read_squeue(rows) == (
        SlurmComponent("3", "3+0", "RUNNING", "gpu[1-2]", "eve"), SlurmComponent("4", "3+1", "RUNNING", "big7", "eve"),
        SlurmComponent("5", "5", "PENDING", "", "eve"),
    )  # fmt: skip


def test_patterns_of_files_become_globs() -> None:
    assert log_glob("/a/out-%5t_%N.log") == "/a/out-*_*.log"
    assert log_glob("/a/[x]*?.log") == "/a/[[]x][*][?].log"
    assert log_glob("/a/plain.out") == "/a/plain.out"
    assert [log_glob(path) for path in ("/dev/null", "(null)", "", "relative")] == ["", "", "", ""]


def test_a_job_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TargetError, match="neither squeue nor scontrol"):
        parts_of_job("17")
    tool(tmp_path, "squeue", '[ "$3" = 17 ] && echo "17|17|RUNNING|eve|gpu[001-002],big7"')
    assert parts_of_job("17") == (SlurmComponent("17", "17", "RUNNING", "gpu[001-002],big7", "eve"),)
    for word in ("17; rm", "", "-M", "x"):
        with pytest.raises(TargetError, match="is no Slurm job id"):
            parts_of_job(word)
    tool(tmp_path, "squeue", "echo '18|18|PENDING|eve|(null)'")
    with pytest.raises(TargetError, match="it is PENDING"):
        parts_of_job("18")
    tool(tmp_path, "squeue", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1")
    with pytest.raises(TargetError, match="Invalid job id specified"):
        parts_of_job("19")
    tool(tmp_path, "scontrol", f"echo '{ARRAY}'")
    assert [part.label for part in parts_of_job("2")] == ["2_2", "2_1"]
    tool(tmp_path, "scontrol", f"echo '{HETEROGENEOUS}'")
    assert [part.label for part in parts_of_job("3")] == ["3+0"], "the part without nodes is left out"


@given(st.text(max_size=400))
def test_any_text_is_read(text: str) -> None:
    for part in (*read_scontrol("JobId=1 " + text), *read_scontrol(text), *read_squeue(text)):
        assert part.number.isdecimal()
