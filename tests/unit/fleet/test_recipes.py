"""The recipes of docs/connecting.md, word for word, with stand-ins that carry bytes and talk as their programs do."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.ssh_server import Home, Host, Person, home, nodes, serve

CONNECTING = Path(__file__).parents[3] / "docs" / "connecting.md"
STAND_IN = """\
#!{python}
import json, os, socket, sys, threading
open({asked!r}, "w").write(json.dumps(sys.argv[1:]))
print({chatter!r}, file=sys.stderr, flush=True)
far = socket.create_connection(("127.0.0.1", {port}))
def up():
    while data := os.read(0, 65536):
        far.sendall(data)
    far.shutdown(socket.SHUT_WR)
threading.Thread(target=up, daemon=True).start()
while data := far.recv(65536):
    os.write(1, data)
"""


def recipes() -> str:
    """The lines of ssh_config that the page proposes."""
    chapter = CONNECTING.read_text(encoding="utf-8").partition("## SSH through something else")[2]
    found = re.search(r"```\n(.*?)```", chapter, re.DOTALL)
    assert found is not None
    return found.group(1)


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A person whose home and programs lie in a folder of the test."""
    made = home(tmp_path)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{Path(sys.executable).parent}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path))
    return made


async def hello(user: Home, node: str) -> bytes:
    """What a command prints there."""
    async with nodes(user, Person(), node) as (ssh,):
        await ssh.connect()
        return (await ssh.run(["echo", "through"])).stdout


@pytest.mark.parametrize(
    ("program", "node", "chatter", "words"),
    [
        ("tsh", "n1.teleport.lab", "WARNING: newer client available",
         "proxy ssh --cluster=lab --proxy=teleport.lab:443 tester@n1.teleport.lab:PORT"),
        ("aws", "i-0abc", "Starting session with SessionId: me-0123",
         "ssm start-session --target i-0abc --document-name AWS-StartSSHSession --parameters portNumber=PORT"),
        ("gcloud", "gpu-3", "WARNING: install NumPy to increase the tunnel's performance",
         "compute start-iap-tunnel gpu-3 PORT --listen-on-stdin --zone=us-east1-c --verbosity=error"),
    ],
)  # fmt: skip
async def test_what_carries_bytes_to_an_sshd_will_do(
    program: str, node: str, chatter: str, words: str, user: Home, tmp_path: Path
) -> None:
    async with serve() as host:
        asked, stand_in = tmp_path / "asked", tmp_path / "bin" / program
        stand_in.write_text(
            STAND_IN.format(python=sys.executable, asked=str(asked), chatter=chatter, port=host.port)
        )  # fmt: skip
        stand_in.chmod(0o755)
        user.knows(host, address=node)
        user.lines += [f"IdentityFile {user.key('user')}", f"Port {host.port}", "User tester", recipes()]
        assert await hello(user, node) == b"through\n"
        assert json.loads(asked.read_text()) == words.replace("PORT", str(host.port)).split()


@pytest.fixture
def near(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home with a short name: that of a socket has a hundred characters at the most."""
    with tempfile.TemporaryDirectory(prefix="h") as folder:
        monkeypatch.setenv("HOME", folder)
        yield Path(folder)


@asynccontextmanager
async def master(user: Home, near: Path, login: Host) -> AsyncIterator[None]:
    """OpenSSH's own master to the login machine, behind a socket where the recipe looks for it."""
    folder = near / ".ssh"
    folder.mkdir()
    config = folder / "master_config"
    config.write_text(
        f"Host login.lab\n HostName 127.0.0.1\n Port {login.port}\n User tester\n IdentityFile {user.key('user')}\n"
        f" UserKnownHostsFile {user.known_hosts}\n IdentityAgent none\n"
    )
    socket_path = folder / "master-login.lab"
    process = await asyncio.create_subprocess_exec("ssh", "-F", config, "-M", "-S", socket_path, "-N", "login.lab")
    try:
        for _ in range(300):
            if socket_path.is_socket():
                break
            await asyncio.sleep(0.1)
        yield
    finally:
        process.terminate()
        await process.wait()


@pytest.mark.skipif(shutil.which("ssh") is None, reason="OpenSSH's client holds the socket")
async def test_the_socket_of_a_master_that_is_logged_in(user: Home, near: Path) -> None:
    async with serve() as login, serve(Host(host_keys=("node",))) as host:
        user.knows(login)
        user.knows(host, "node")
        user.lines += [f"IdentityFile {user.key('user')}", "Host gpu3", "HostName 127.0.0.1", f"Port {host.port}",
                       "User tester", recipes()]  # fmt: skip
        async with master(user, near, login):
            assert await hello(user, "gpu3") == b"through\n"
        assert login.forwarded == [("127.0.0.1", host.port)]
