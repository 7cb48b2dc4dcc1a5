"""Ways to a host: direct, over jump hosts, through a command; slow ones, dead ones and busy ones."""

from __future__ import annotations

import asyncio
import sys

import pytest

from collectors.fleet.transport import Refused, TransportError
from tests.support.ssh_server import Home, Host, Person, listen, nodes, serve
from tests.support.torch_ranks import free_port


async def test_nobody_listens_and_nobody_is_called_so(user: Home) -> None:
    user.node("node0", Host(port=free_port()))
    user.lines += ["Host node1", "HostName no-such-host.invalid"]
    async with nodes(user, Person(), "node0", "node1") as (closed, nameless):
        with pytest.raises(TransportError, match="nothing listens at 127"):
            await closed.connect()
        with pytest.raises(TransportError, match="no address for no-such-host"):
            await nameless.connect()
        with pytest.raises(TransportError, match="not connected"):
            await closed.run(["true"])


async def test_a_host_that_never_speaks_is_given_up(user: Home) -> None:
    async with listen(lambda _reader, _writer: asyncio.sleep(30)) as port:
        user.node("node0", Host(port=port), "ConnectTimeout 1")
        async with nodes(user, Person(), "node0") as (node,):
            with pytest.raises(TransportError, match="accepts connections, but no login was done within 1 s"):
                await node.connect()


async def test_one_tunnel_for_all_nodes_behind_a_jump_host(user: Home) -> None:
    async with serve() as jump, serve(Host(host_keys=("inner",))) as inner:
        user.knows(jump)
        user.knows(inner, "inner")
        user.node("bastion", jump)
        for number in range(5):
            user.node(f"node{number}", inner, "ProxyJump bastion")
        async with nodes(user, Person(), *(f"node{number}" for number in range(5))) as found:
            await asyncio.gather(*(node.connect() for node in found))
            assert jump.made == 1
            assert inner.made == 5
            assert (await found[4].run(["echo", "behind"])).stdout == b"behind\n"
            quiet = [await node.start(["cat"], on_stdout=print, on_stderr=print) for node in found]
            for connection in list(jump.connections):
                connection.abort()
            await asyncio.gather(*(asyncio.wait_for(stream.wait(), 60) for stream in quiet))
            await asyncio.gather(*(node.connect() for node in found))
            assert jump.made == 2


@pytest.mark.parametrize(("known", "why"), [("other", "another host key than before"), ("", "nobody may be asked")])
async def test_a_jump_host_shows_its_key_too(user: Home, known: str, why: str) -> None:
    async with serve() as jump, serve(Host(host_keys=("inner",))) as inner:
        user.knows(inner, "inner")
        if known:
            user.knows(jump, known)
        user.node("bastion", jump)
        user.node("node0", inner, "ProxyJump bastion")
        async with nodes(user, Person(None)) as (node,):
            with pytest.raises(Refused, match=f"jump host bastion: .*{why}"):
                await node.connect()
        assert inner.made == 0


RELAY = """\
import os, socket, sys, threading
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
print("warning: on standard error", file=sys.stderr, flush=True)
def up():
    while data := os.read(0, 65536): s.sendall(data)
    s.shutdown(1)
threading.Thread(target=up, daemon=True).start()
while data := s.recv(65536): os.write(1, data)
"""


async def test_proxy_command(user: Home) -> None:
    script = user.folder / "relay.py"
    script.write_text(RELAY)
    async with serve() as host:
        user.knows(host)
        user.node("node0", host, f"ProxyCommand {sys.executable} {script} %p")
        user.node("node1", host, "ProxyCommand echo 'gateway says \\033[31mno' >&2; exit 1; %h")
        async with nodes(user, Person(), "node0", "node1") as (node, failing):
            await node.connect()
            assert (await node.run(["echo", "through"])).stdout == b"through\n"
            with pytest.raises(TransportError, match="the ProxyCommand of node1 gives no connection: try ssh node1"):
                await failing.connect()
