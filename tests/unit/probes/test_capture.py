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

TOOL = """\
#!{python} -S
import os, signal, sys
if {denied} and not os.environ.get("AS_ROOT"):
    sys.exit("tcpdump: eth0: You don't have permission to capture on that device")
signal.signal(signal.SIGINT, lambda *_: sys.exit("7 packets captured\\n9 received\\n1 packet dropped by kernel"))
os.write(1, open({data!r}, "rb").read())
while True:
    signal.pause()
"""
SUDO = """\
#!/bin/sh
{refuse}
shift
AS_ROOT=1 exec "$@"
"""


def put(folder: Path, name: str, text: str) -> None:
    tool = folder / name
    tool.write_text(text)
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    data = tmp_path / "packets"
    data.write_bytes(bytes(30_000))
    put(folder, "tcpdump", TOOL.format(python=sys.executable, denied=False, data=str(data)))
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def node(peers: tuple[str, ...] = ("10.0.0.2",)) -> CaptureNode:
    return CaptureNode(NodeAccess("node1", Local("node1"), sys.executable, "10.0.0.1"), "eth0", peers, 29500)


async def run(folder: Path, most: int = 1 << 20, *, sudo: bool = True) -> Captured:
    (one,) = await capture([node()], folder / "out", "capture", seconds=0.3, most=most, sudo=sudo)
    return one


def test_the_command_is_shown_word_for_word() -> None:
    first, how = describe([node()], 5, 16_000_000, sudo=True)
    assert first == (
        "on node1: tcpdump -i eth0 -n -p -U -s 128 -w - 'tcp and not port 22 and (host 10.0.0.2 or port 29500)'"
    )
    assert "sudo -n" in how
    assert "sudo" not in describe([node()], 5, 16_000_000, sudo=False)[-1]
    assert "16 MB" in how
    many = node(tuple(f"10.0.{n}.1" for n in range(64)))
    assert many.words()[-1] == "tcp and not port 22 and (port 29500)"


async def test_packets_come_here_whole_and_are_counted(tools: Path, tmp_path: Path) -> None:
    one = await run(tmp_path)
    assert (one.why, one.packets, one.dropped) == ("", 7, 1)
    assert one.path is not None
    assert one.path.stat().st_size == one.size
    told = result([one])
    assert (told.outcome, told.summary) == ("ok", "1 capture, for Wireshark or tcpdump -r")
    assert told.figures["captures"][0]["dropped_by_kernel"] == 1


async def test_it_stops_at_the_size_that_was_said(tools: Path, tmp_path: Path) -> None:
    one = await run(tmp_path, most=1000)
    assert 0 < one.size <= 30_000


@pytest.mark.parametrize(("refuse", "why"), [("", ""), ("echo sudo: a password is required >&2; exit 1", "sudo -n: ")])
async def test_without_the_right_it_tries_sudo_and_says_what_both_said(
    refuse: str, why: str, tools: Path, tmp_path: Path
) -> None:
    put(tools, "tcpdump", TOOL.format(python=sys.executable, denied=True, data=str(tmp_path / "packets")))
    put(tools, "sudo", SUDO.format(refuse=refuse))
    one = await run(tmp_path)
    if not why:
        assert (one.why, one.packets) == ("", 7)
    else:
        assert one.path is None
        assert "permission to capture" in one.why
        assert "sudo -n: sudo: a password is required" in one.why
        assert not list((tmp_path / "out").iterdir())


async def test_sudo_is_not_tried_unasked(tools: Path, tmp_path: Path) -> None:
    put(tools, "tcpdump", TOOL.format(python=sys.executable, denied=True, data=str(tmp_path / "packets")))
    put(tools, "sudo", f"#!/bin/sh\ntouch {tmp_path}/asked\n")
    one = await run(tmp_path, sudo=False)
    assert one.path is None
    assert result([one]).outcome == "failed"
    assert one.why.endswith("; sudo -n was not tried: --sudo allows it")
    assert not (tmp_path / "asked").exists()
