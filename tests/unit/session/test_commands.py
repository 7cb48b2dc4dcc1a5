"""Commands of next steps: as they have to be typed to reach the nodes of this session."""

from __future__ import annotations

from pathlib import Path

from hangtop.diagnosis.finding import Finding, NextStep, Verdict
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


def test_this_machine_is_not_reached_by_its_name() -> None:
    assert command("hangtop stacks me --rank 3 --native", SessionOptions(), "me") == "hangtop stacks --rank 3 --native"


def test_commands_that_connect_to_nothing_and_those_of_others_stay_as_they_are() -> None:
    options = SessionOptions(targets=("n1",), ssh_config=Path("/c"))
    for given in ("hangtop analyze FLIGHT_RECORDER_DUMPS", "ssh n1"):
        assert command(given, options, "n1") == given
    assert command("hangtop stacks n1", SessionOptions(targets=("n1",)), "n1") == "hangtop stacks n1"
