"""tcpdump on a node: its exact command, its bytes here, and why there are none; the tool is a simulated one."""

from __future__ import annotations

import os
import shlex
import stat
from pathlib import Path

import pytest

from collectors.probes.running import NodeAccess
from hangtop.session.probes.capture import capture, tcpdump
from tests.support.here import here

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


async def run(folder: Path, most: int = 1 << 20, *, sudo: bool = False) -> tuple[int, str]:
    """Bytes that were captured, and what tcpdump said."""
    with (folder / "x.pcap").open("wb") as file:
        why = await capture(
            NodeAccess("node1", here("node1"), "10.0.0.1"), tcpdump("eth0", ["10.0.0.2"], 1, sudo=sudo), file, 1, most
        )
    return (folder / "x.pcap").stat().st_size, why


def test_the_command_is_shown_word_for_word() -> None:
    words = tcpdump("eth0", ["10.0.0.2", "10.0.0.3"], 5, sudo=False)
    packets = "'tcp and not port 22 and (host 10.0.0.2 or host 10.0.0.3)'"
    assert shlex.join(words) == f"timeout -s INT 5 tcpdump -i eth0 -n -p -U -s 128 -w - {packets}"
    assert tcpdump("", [], 5, sudo=True)[:3] == ["sudo", "-n", "timeout"]
    many = [f"10.0.{n}.1" for n in range(64)]
    assert tcpdump("eth0", many, 5, sudo=False)[-1] == "tcp and not port 22"


@pytest.mark.usefixtures("tools")
async def test_packets_come_here_whole_and_no_more_than_was_said(tmp_path: Path) -> None:
    assert (await run(tmp_path))[0] == 30_000
    assert (await run(tmp_path, most=1000))[0] <= 1000


async def test_without_the_right_it_says_why(tools: Path, tmp_path: Path) -> None:
    put(tools, "tcpdump", DENIED)
    taken, why = await run(tmp_path)
    assert taken == 0
    assert "permission to capture" in why
    put(tools, "sudo", "#!/bin/sh\necho sudo: a password is required >&2; exit 1\n")
    assert (await run(tmp_path, sudo=True))[1] == "sudo: a password is required"
