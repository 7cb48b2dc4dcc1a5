"""What else can be measured from the screen: chosen from a list, its commands shown, nothing done without a yes."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from collectors.fleet.local import Local
from tests.support.ib_tools import install
from tests.support.piloted import screen
from tests.support.screens import Paper, PaperSession


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PaperSession:
    """A job whose two nodes are this machine, with simulated InfiniBand tools."""
    install(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(PaperSession, "transport", lambda _session, node: Local(node))
    monkeypatch.setattr(PaperSession, "python", lambda _session, _node: sys.executable)
    monkeypatch.setattr("hangtop.session.probes.address_of", lambda _job, _node: "127.0.0.1")
    return Paper(nodes=2, gpus=1).session()


async def test_the_fabric_is_measured_after_a_yes(session: PaperSession) -> None:
    async with screen(session) as shown:
        await shown.press("M")
        assert "What else can be measured" in shown.text()
        await shown.press("down")
        await shown.press("enter")
        assert "2 nodes, every pair in both directions" in shown.text()
        await shown.press("e")
        assert "on node1: ib_write_bw -d mlx5_0 -i 1 -p PORT" in shown.text()
        await shown.press("y")
        assert "node1 → node2" in shown.text()
        assert "392.01" in shown.text()


async def test_a_capture_shows_its_command_and_can_be_left(session: PaperSession, tmp_path: Path) -> None:
    async with screen(session) as shown:
        await shown.press("M")
        await shown.press("enter")
        assert "2 nodes, packet headers for 5 s, at most 16 MB each, sends nothing" in shown.text()
        await shown.press("e")
        assert "tcpdump -i eth0 -n -p -U -s 128" in shown.text()
        await shown.press("n")
        assert len(shown.app.screen_stack) == 1


async def test_read_only_refuses_them() -> None:
    session = Paper(nodes=1).session()
    session.options = replace(session.options, read_only=True)
    async with screen(session) as shown:
        await shown.press("M")
        assert any("refused, because --read-only was given" in notice for notice in shown.notices())
