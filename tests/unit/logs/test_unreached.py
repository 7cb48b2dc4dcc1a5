"""Peers that are not reached, GPUs that are lost in the driver's other words, Slurm's own logs, cut chains."""

from __future__ import annotations

from pathlib import Path

import pytest

from hangtop.diagnosis.verdict.verdict import diagnose
from hangtop.session.folder import files_session
from tests.support.logs import kinds, only, parse

DAEMON = (
    "A process or daemon was unable to complete a TCP connection\nto another process:\n"
    "  Local host:    n1\n  Remote host:   n2\nThis may be a firewall.\n"
)
RANK = (
    "WARNING: Open MPI failed to TCP connect to a peer MPI process.\n\n  Local host: n1\n  PID:        88\n"
    "  Message:    connect() failed\n"
)
FRAME = '(Engine pid=7) ERROR 08-07 19:11:43 [core.py:684]   File "/x/core.py", line {}, in step\n'
RAISED = "(Engine pid=7) ERROR 08-07 19:11:43 [core.py:684] TimeoutError\n"
ABOVE = (
    "(Engine pid=7) ERROR 08-07 19:11:43 [core.py:684] The above exception was the direct cause of the following one:\n"
)
HEAD = "(Engine pid=7) ERROR 08-07 19:11:43 [core.py:684] Traceback (most recent call last):\n"


def test_a_daemon_that_is_not_reached() -> None:
    event = only(parse(DAEMON), "launcher.lost_node")
    assert (event.host, event.data["why"]) == ("n2", "no TCP connection to it came about")


def test_a_peer_that_is_not_reached() -> None:
    assert kinds(parse(RANK)) == ["launcher.lost_node"]


def test_a_connection_that_is_told_of_and_came_about() -> None:
    assert kinds(parse("the TCP connection to another process is open\n  Remote host:   n2\n")) == []


@pytest.mark.parametrize(
    "words", ["Assertion failed: GPU lost from the bus", "returned NV_ERR_GPU_IS_LOST", "GPU has been lost"]
)
def test_a_gpu_that_the_driver_lost(words: str) -> None:
    event = only(parse(f"Feb 17 08:00:34 n7 kernel: NVRM: nvAssert: {words} from rmStatus @ ce.c:106\n"), "kernel.gpu")
    assert (event.host, event.data["problem"]) == ("n7", "bad_register")


def test_a_chain_of_exceptions_that_is_cut_at_both_ends(tmp_path: Path) -> None:
    (tmp_path / "engine.log").write_text(FRAME.format(1) + RAISED + ABOVE + HEAD + FRAME.format(2))
    (finding,) = diagnose(files_session([tmp_path]).job()).findings
    assert finding.kind == "rank_crashed"
