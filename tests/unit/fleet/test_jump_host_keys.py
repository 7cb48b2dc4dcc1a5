"""Host keys of jump hosts, each case given to the real ``ssh`` and to hangtop."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from pathlib import Path

import pytest

from collectors.fleet.transport import Refused
from tests.support.ssh_server import Home, Host, Person, home, nodes, public, serve

pytestmark = pytest.mark.skipif(shutil.which("ssh") is None, reason="needs the real ssh to compare with")

KNOWN = {
    "its key": "{name} {jump}\n",
    "another key": "{name} {other}\n",
    "its key, revoked": "{name} {jump}\n@revoked {name} {jump}\n",
    "nothing": "",
}


def through_ssh(user: Home) -> bool:
    words = ["ssh", "-F", str(user.config), "-o", "BatchMode=yes", "node0", "true"]
    return subprocess.run(words, capture_output=True, timeout=30.0, check=False).returncode == 0


async def through_hangtop(user: Home) -> str:
    """Why it does not go through; empty where it does."""
    async with nodes(user, Person()) as (node,):
        try:
            await node.connect()
        except Refused as error:
            return str(error)
        return ""


@pytest.mark.parametrize("strict", ["yes", "ask", "accept-new", "no"])
@pytest.mark.parametrize("known", KNOWN)
async def test_a_way_goes_through_a_jump_host_where_ssh_goes_through_it(
    tmp_path: Path, known: str, strict: str
) -> None:
    user = home(tmp_path)
    user.lines += [f"IdentityFile {user.key('user')}", "IdentitiesOnly yes", "UpdateHostKeys no"]
    async with serve() as host, serve(Host(host_keys=("jump",))) as jump:
        name = f"[localhost]:{jump.port}"
        lines = KNOWN[known].format(name=name, jump=public("jump"), other=public("other"))
        text = f"[127.0.0.1]:{host.port} {public('host')}\n{lines}"
        user.node("node0", host, "ProxyJump jump")
        user.lines += ["Host jump", "HostName localhost", f"Port {jump.port}", "User tester"]
        user.lines += [f"StrictHostKeyChecking {strict}"]
        user.known_hosts.write_text(text)
        theirs = await asyncio.to_thread(through_ssh, user)
        user.known_hosts.write_text(text)
        why = await through_hangtop(user)
        assert not why if theirs else why.startswith("jump host jump: ")
        assert theirs == (known == "its key" or (known == "nothing" and strict in ("accept-new", "no")))
