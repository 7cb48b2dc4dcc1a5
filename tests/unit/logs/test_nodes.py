"""What clusters tell of their nodes, and what a machine's own programs tell of themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from hangtop.diagnosis.verdict.verdict import diagnose
from hangtop.session.folder import files_session
from tests.support.logs import kinds, of_kind, only, parse

HEAD = "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\n"
DOWN = "gpu*         up 7-00:00:00      1  down* n9\n"
DRAINED = "gpu*         up 7-00:00:00      3  drain n[1-3]\n"
IDLE = "cpu          up 7-00:00:00      2   idle c[1-2]\n"
NOT_READY = (
    "Nov 25 10:00:00 n7 kubelet[8]: I1125 10:00:00.1 8 node_status.go:792] Node became not ready: {Type:Ready "
    "Status:False Reason:KubeletNotReady Message:container runtime is down}"
)
SET = "slurmctld: error: Setting node n7 state to {} with reason:{}"
NODE = (
    "Capacity:\n  cpu:             96\n  memory:          1056k\n  nvidia.com/gpu:  8\n"
    "Allocatable:\n  cpu:             95\n  nvidia.com/gpu:  {}\nSystem Info:\n"
)
DAEMON = "Nov 25 10:00:00 n7 {}[88]: ERROR could not read its own file of settings"
ENGINE = "2026-11-25 10:00:00.1 ERROR [88:90] Failed to load module 9 [/src/lib/Handler.cpp:18] [Handler::Load]"


def test_nodes_that_are_drained_where_none_is_left() -> None:
    event = only(parse(HEAD + DRAINED), "launcher.pending")
    assert event.host == "n[1-3]"
    assert event.data["why"] == "Slurm has drained n[1-3]"


@pytest.mark.parametrize("rows", [DRAINED + IDLE, IDLE + DRAINED, IDLE])
def test_drained_nodes_among_others(rows: str) -> None:
    assert kinds(parse(HEAD + rows)) == []


def test_every_row_of_nodes_that_are_down_counts() -> None:
    events = of_kind(parse(HEAD + DOWN + IDLE + DOWN.replace("n9", "n[4-5]")), "launcher.lost_node")
    assert [event.host for event in events] == ["n9", "n[4-5]"]


def test_drained_nodes_are_told_with_their_names(tmp_path: Path) -> None:
    (tmp_path / "sinfo.txt").write_text(HEAD + DRAINED)
    (finding,) = diagnose(files_session([tmp_path]).job()).findings
    assert (finding.kind, finding.nodes) == ("waiting", ("n[1-3]",))


@pytest.mark.parametrize(
    ("line", "kind", "host"),
    [
        (SET.format("INVAL", "gres/gpu count reported lower than configured (3 < 4)"), "gpu.unseen", "n7"),
        (SET.format("DOWN", "Low RealMemory"), "launcher.lost_node", "n7"),
        ("Nov 25 10:00:00 n7 slurmd[8]: slurmd: fatal: can't stat /dev/nvidia0", "launcher.refused", "n7"),
        (NOT_READY, "launcher.lost_node", "n7"),
    ],
)
def test_what_managers_say_of_a_node(line: str, kind: str, host: str) -> None:
    assert only(parse(line + "\n"), kind).host == host


def test_gpus_that_a_node_has_and_may_not_give_away() -> None:
    assert only(parse(NODE.format(7)), "gpu.unseen").data["error"] == "7 of 8 nvidia.com/gpu can be given away"
    assert kinds(parse(NODE.format(8))) == []


@pytest.mark.parametrize("program", ["kubelet", "sshd", "dockerd", "systemd-resolved", "nv-hostengine"])
def test_an_error_of_the_machine_s_own_programs_is_no_end(program: str, tmp_path: Path) -> None:
    (tmp_path / "syslog").write_text(DAEMON.format(program) + "\n")
    assert list(diagnose(files_session([tmp_path]).job()).findings) == []


def test_an_error_of_a_program_that_a_journal_runs_is_one() -> None:
    assert only(parse(DAEMON.format("trainer") + "\n"), "log.error").host == "n7"


def test_a_host_engine_s_error_is_no_end(tmp_path: Path) -> None:
    (tmp_path / "engine.log").write_text(ENGINE + "\n")
    assert list(diagnose(files_session([tmp_path]).job()).findings) == []
