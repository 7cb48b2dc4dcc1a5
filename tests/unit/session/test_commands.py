"""Commands of next steps: as they have to be typed to reach the nodes of this session."""

from __future__ import annotations

from pathlib import Path

import pytest

from hangtop.diagnosis.finding import Finding, NextStep, Verdict, next_step
from hangtop.session.options import SessionOptions, completed


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


def test_another_way_than_ssh_is_part_of_it() -> None:
    options = SessionOptions(targets=("n1",), via="docker exec -i %h sh")
    assert command("hangtop stacks n1", options) == "hangtop stacks n1 --via 'docker exec -i %h sh'"


def test_the_slurm_job_is_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    options = SessionOptions(slurm="4711_3", via="slurm")
    stacks = "hangtop stacks n1 --rank 3"
    assert command(stacks, options, "n1", "n2") == f"{stacks} --slurm 4711_3 --via slurm"
    assert command(stacks, SessionOptions(slurm="4711"), "n1") == f"{stacks} --slurm 4711"
    monkeypatch.setenv("SLURM_JOB_ID", "99")
    assert command(stacks, SessionOptions(via="slurm"), "n1") == f"{stacks} --slurm 99 --via slurm"
    assert command(stacks, SessionOptions(), "n1") == "hangtop stacks --rank 3"


def test_this_machine_is_not_reached_by_its_name() -> None:
    assert command("hangtop stacks me --rank 3 --native", SessionOptions(), "me") == "hangtop stacks --rank 3 --native"


def test_commands_that_connect_to_nothing_and_those_of_others_stay_as_they_are() -> None:
    options = SessionOptions(targets=("n1",), ssh_config=Path("/c"))
    for given in ("hangtop analyze FLIGHT_RECORDER_DUMPS", "ssh n1", "hangtop repair launch -F /c"):
        assert command(given, options, "n1") == given
    assert command("hangtop stacks n1", SessionOptions(targets=("n1",)), "n1") == "hangtop stacks n1"


def test_a_node_of_a_recording_names_one_word_of_a_command() -> None:
    step = next_step("^n", "stacks", "a;id", "--rank", "3")
    assert step.command == "hangtop stacks 'a;id' --rank 3"
