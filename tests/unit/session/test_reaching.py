"""Which nodes, by which way."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectors.fleet.targets.chosen import TargetError
from hangtop.diagnosis.finding import Finding, NextStep, Verdict
from hangtop.session.live import LiveSession
from hangtop.session.options import SessionOptions, completed


def test_ssh_unless_another_way_is_named() -> None:
    assert LiveSession(SessionOptions(targets=("n[1-2]",))).way is None
    found = LiveSession(SessionOptions(targets=("n[1-2]",), via="docker exec -i %h sh"))
    assert found.way is not None
    assert found.way.words(found.targets[1]) == ["docker", "exec", "-i", "n2", "sh"]
    assert [target.name for target in found.targets] == ["n1", "n2"]


@pytest.mark.parametrize(("nodes", "wish", "interval"), [(512, None, 1), (513, None, 2), (2048, None, 4), (2048, 1, 1)])
def test_a_large_job_is_read_less_often_unless_somebody_chose(nodes: int, wish: float | None, interval: float) -> None:
    session = LiveSession(SessionOptions(targets=(f"n[1-{nodes}]",), interval=wish))
    assert session.node_settings.of().interval == session.state.interval == interval


def test_a_way_leads_to_nodes(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="needs nodes to lead to"):
        LiveSession(SessionOptions(via="docker exec -i %h sh"))


JOB = "JobId=7 JobName=x\n   JobState=RUNNING\n   NodeList=n[1-2]\n   StdOut=/out/7-%t.log"


def slurm(folder: Path, monkeypatch: pytest.MonkeyPatch, *programs: str) -> None:
    for name, body in {
        "scontrol": f"printf '%s\\n' '{JOB}'",
        "srun": "exit 1",
    }.items():
        if name in programs:
            (folder / name).write_text(f"#!/bin/sh\n{body}\n")
            (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)


def test_a_slurm_job_by_its_own_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slurm(tmp_path, monkeypatch, "scontrol", "srun")
    found = LiveSession(SessionOptions(slurm="7", via="slurm"))
    assert found.way is not None
    assert "--overlap" in found.way.words(found.targets[0])
    assert [target.name for target in found.targets] == ["n1", "n2"]
    assert found.options.logs == ("/out/7-*.log",)
    with pytest.raises(TargetError, match="name it by --slurm JOBID"):
        LiveSession(SessionOptions(via="slurm"))
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert LiveSession(SessionOptions(via="slurm")).targets == found.targets


def test_a_slurm_job_by_ssh_unless_a_way_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slurm(tmp_path, monkeypatch, "scontrol", "srun")
    assert LiveSession(SessionOptions(slurm="7")).way is None
    for via, program in (("ssh", "ssh"), ("x %h", "x")):
        found = LiveSession(SessionOptions(slurm="7", via=via))
        assert found.way is not None
        assert found.way.words(found.targets[0])[0] == program


# --- commands of next steps: as they have to be typed to reach the nodes of this session --------------------------


def verdict(command: str) -> Verdict:
    return Verdict("hung", "…", (Finding("k", "critical", 0.9, "…", next=(NextStep("^n", command),)),))


def command(given: str, options: SessionOptions, *nodes: str) -> str:
    return completed(verdict(given), options, nodes).findings[0].next[0].command


def test_the_way_to_the_nodes_is_part_of_the_command() -> None:
    options = SessionOptions(
        targets=("n[1-2]",), ssh_config=Path("/tmp/my nodes/ssh_config"), job=("SLURM_JOB_ID", "7"), sudo=True
    )
    way = "-F '/tmp/my nodes/ssh_config' --job SLURM_JOB_ID=7 --sudo"
    assert command("hangtop stacks n1 --rank 3 --native", options) == f"hangtop stacks n1 --rank 3 --native {way}"


def test_this_machine_is_not_reached_by_its_name() -> None:
    assert command("hangtop stacks me --rank 3 --native", SessionOptions(), "me") == "hangtop stacks --rank 3 --native"


def test_commands_that_connect_to_nothing_and_those_of_others_stay_as_they_are() -> None:
    options = SessionOptions(targets=("n1",), ssh_config=Path("/c"))
    for given in ("hangtop analyze FLIGHT_RECORDER_DUMPS", "ssh n1"):
        assert command(given, options, "n1") == given
    assert command("hangtop stacks n1", SessionOptions(targets=("n1",)), "n1") == "hangtop stacks n1"
