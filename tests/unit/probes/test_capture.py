"""tcpdump on a node: its exact command, its bytes here, and why there are none; the tool is a simulated one."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from collectors.fleet.local import Local
from collectors.probes.capture import Captured, CaptureNode, capture, describe
from collectors.probes.running import NodeAccess
from hangtop.session.probes.capture import result

TOOL = "#!/bin/sh\nhead -c 30000 /dev/zero\nexec sleep 60\n"
DENIED = '#!/bin/sh\necho "tcpdump: eth0: You don\'t have permission to capture on that device" >&2\nexit 1\n'


def put(folder: Path, name: str, text: str) -> None:
    tool = folder / name
    tool.write_text(text)
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    put(folder, "tcpdump", TOOL)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def node(peers: tuple[str, ...] = ("10.0.0.2",)) -> CaptureNode:
    return CaptureNode(NodeAccess("node1", Local("node1"), sys.executable, "10.0.0.1"), "eth0", peers, 29500)


async def run(folder: Path, most: int = 1 << 20, *, sudo: bool = False) -> Captured:
    (one,) = await capture([node()], folder / "out", "capture", seconds=1, most=most, sudo=sudo)
    return one


def test_the_command_is_shown_word_for_word() -> None:
    (shown,) = describe([node()], 5, sudo=False)
    assert shown == (
        "on node1: timeout -s INT 5 tcpdump -i eth0 -n -p -U -s 128 -w - "
        "'tcp and not port 22 and (host 10.0.0.2 or port 29500)'"
    )
    assert node().words(5, sudo=True)[:3] == ["sudo", "-n", "timeout"]
    many = node(tuple(f"10.0.{n}.1" for n in range(64)))
    assert many.words(5, sudo=False)[-1] == "tcp and not port 22 and (port 29500)"


@pytest.mark.usefixtures("tools")
async def test_packets_come_here_whole(tmp_path: Path) -> None:
    one = await run(tmp_path)
    assert (one.why, one.bytes, Path(one.file).name) == ("", 30_000, "capture-node1.pcap")
    told = result([one])
    assert (told.outcome, told.summary) == ("ok", "1 capture, for Wireshark or tcpdump -r")


@pytest.mark.usefixtures("tools")
async def test_it_stops_at_the_size_that_was_said(tmp_path: Path) -> None:
    assert (await run(tmp_path, most=1000)).bytes <= 1000


async def test_without_the_right_it_says_why(tools: Path, tmp_path: Path) -> None:
    put(tools, "tcpdump", DENIED)
    one = await run(tmp_path)
    assert result([one]).outcome == "failed"
    assert "permission to capture" in one.why
    put(tools, "sudo", "#!/bin/sh\necho sudo: a password is required >&2; exit 1\n")
    assert (await run(tmp_path, sudo=True)).why == "sudo: a password is required"
    assert not list((tmp_path / "out").iterdir())
