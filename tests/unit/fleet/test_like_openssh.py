"""Host keys as OpenSSH judges them: a table of cases, each given to the real ``ssh``, to hangtop and to ``--via ssh``.

A row is what known_hosts says, which keys the host shows, what StrictHostKeyChecking is, on which port the host is,
whether known_hosts is hashed, and how the host is reached. All must give the same answer and leave the same file; but
hangtop leaves a certificate that a known authority did not make to ``--via ssh``, which takes the key in it, and
``--via ssh`` tells no two refusals apart.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from collectors.fleet.targets.chosen import Target
from collectors.fleet.transport import Declined, Refused, TransportError
from collectors.fleet.via.piped import Piped
from collectors.fleet.via.way import way_of
from tests.support.ssh_server import Home, Host, Person, home, key, nodes, public, serve

pytestmark = pytest.mark.skipif(shutil.which("ssh") is None, reason="needs the real ssh to compare with")

AT_ONCE = 6

# {own} is the host's name with its port, {plain} without.
KNOWN: dict[str, tuple[str, ...]] = {
    "nothing": (),
    "its key": ("{own} host",),
    "another key": ("{own} other",),
    "another type": ("{own} ec-other",),
    "another key and its key": ("{own} other", "{own} host"),
    "its second key": ("{own} ec-host",),
    "its key without port": ("{plain} host",),
    "another key without port": ("{plain} other",),
    "its key by pattern": ("*.0.0.* host",),
    "all but it": ("*,!{plain} host",),
    "its key, revoked": ("{own} host", "@revoked {own} host"),
    "revoked alone": ("@revoked {own} host",),
    "revoked without port": ("@revoked {plain} host",),
    "another revoked": ("{own} host", "@revoked {own} other"),
    "authority": ("@cert-authority {own} authority",),
    "authority without port": ("@cert-authority {plain} authority",),
    "another authority": ("@cert-authority {own} other",),
    "another authority and its key": ("@cert-authority {own} other", "{own} host"),
    "another authority and it without port": ("@cert-authority {own} other", "@cert-authority {plain} authority"),
    "another key and authority": ("{own} other", "@cert-authority {own} authority"),
    "another key and authority without port": ("{own} other", "@cert-authority {plain} authority"),
    "revoked with and without port": ("@revoked {own} host", "@revoked {plain} host"),
    "authority, revoked": ("@cert-authority {own} authority", "@revoked * authority"),
    "authority, its key revoked": ("@cert-authority {own} authority", "@revoked * host"),
    "authority as a key": ("{own} authority",),
    "no key": ("{own}", "nonsense", "{own} ssh-ed25519 AAAA", "@odd {own} host"),
}
SHOWN = ("key", "two keys", "certificate", "certificate for another")
STRICT = ("yes", "ask", "accept-new")
WAYS = ("port", "22", "alias", "jump")


class Row(NamedTuple):
    known: str
    shown: str
    strict: str
    way: str
    hashed: bool = False


def rows() -> Iterator[Row]:
    for known, shown, strict in itertools.product(KNOWN, SHOWN, STRICT):
        if shown in ("key", "certificate") or strict == "accept-new":
            yield Row(known, shown, strict, "port")
    for known, strict, way in itertools.product(KNOWN, ("yes", "accept-new"), ("22", "alias", "jump")):
        yield Row(known, "key", strict, way)
    for known, way in itertools.product(KNOWN, WAYS):
        yield Row(known, "certificate", "accept-new", way, hashed=True)


class Outcome(NamedTuple):
    answer: str
    """``in``, ``changed``, ``revoked``, ``asked`` or ``unknown``."""
    learned: tuple[str, ...]
    """What is in known_hosts afterwards and was not before."""


RELAY = """\
import os, socket, sys, threading
far = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
def carry(read, write):
    try:
        while data := read(65536):
            write(data)
    finally:
        os._exit(0)  # one side is gone: without a word, for ssh says why
threading.Thread(target=carry, args=(far.recv, lambda data: os.write(1, data)), daemon=True).start()
carry(lambda size: os.read(0, size), far.sendall)
"""


def config(folder: Path, row: Row, host: Host, jump: Host) -> Path:
    """A ~/.ssh for one row and one client."""
    folder.mkdir()
    made = home(folder)
    made.lines += [
        f"IdentityFile {made.key('user')}", "IdentitiesOnly yes", "UpdateHostKeys no", "CheckHostIP no",
        "ConnectTimeout 20",
    ]  # fmt: skip
    port = 22 if row.way == "22" else host.port
    own = {"22": "127.0.0.1", "alias": "the-alias"}.get(row.way, f"[127.0.0.1]:{host.port}")
    lines = []
    for line in KNOWN[row.known]:
        head, _, name = line.format(own=own, plain="127.0.0.1").rpartition(" ")
        is_key = name in ("host", "other", "ec-host", "ec-other", "authority")
        lines.append(f"{head} {public(name)}" if is_key else f"{head} {name}".strip())
    made.known_hosts.write_text("".join(f"{line}\n" for line in lines))
    if row.hashed and lines:
        subprocess.run(["ssh-keygen", "-q", "-H", "-f", made.known_hosts], check=False, capture_output=True)
    made.known_hosts.open("a").write(f"[localhost]:{jump.port} {public('jump')}\n")
    made.lines += ["Host node0", "HostName 127.0.0.1", f"Port {port}", "User tester"]
    made.lines += [f"StrictHostKeyChecking {row.strict}"]
    if row.way == "22":
        (folder / "relay").write_text(RELAY)
        made.lines += [f"ProxyCommand {sys.executable} -I -S {folder}/relay {host.port}"]
    if row.way == "alias":
        made.lines += ["HostKeyAlias the-alias"]
    if row.way == "jump":
        made.lines += ["ProxyJump jump", "Host jump", "HostName localhost", f"Port {jump.port}", "User tester"]
    made.config  # noqa: B018 (writes it)
    return folder


async def by_ssh(folder: Path, row: Row) -> Outcome:
    before = lines_of(folder)
    with (folder / "errors").open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            "ssh", "-F", folder / "config", "node0", "true", stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL, stderr=errors, start_new_session=True,
            env={"PATH": os.environ["PATH"], "HOME": str(folder)},
        )  # fmt: skip
        await process.wait()
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # the ssh -W of its jump may outlive it, and keep a pipe open
    said = (folder / "errors").read_text()
    if process.returncode == 0:
        answer = "in"
    elif "REVOKED HOST KEY" in said and "was revoked and you have requested strict checking" in said:
        # It says so too where it looked without the port, and goes on.
        aside = row.known == "revoked without port" and row.way in ("port", "jump")
        answer = "new" if aside else "revoked"
    elif "IDENTIFICATION HAS CHANGED" in said:
        answer = "changed"
    elif "Host key verification failed" in said:
        answer = "new"
    else:
        raise AssertionError(said)
    if answer == "new":
        answer = {"yes": "unknown", "ask": "asked"}[row.strict]
    return Outcome(answer, learned(folder, before))


async def by_hangtop(folder: Path) -> Outcome:
    before = lines_of(folder)
    person = Person()
    answer = "in"
    try:
        async with nodes(Home(folder, (folder / "config").read_text().splitlines()), person) as (node,):
            await node.connect()
    except Declined:
        answer = "asked"
    except Refused as error:
        words = {"another host key than before": "changed", "is revoked": "revoked", "no known_hosts": "unknown",
                 "--via ssh leaves": "left to ssh"}  # fmt: skip
        answer = next((word for said, word in words.items() if said in str(error)), str(error))
    return Outcome(answer, learned(folder, before))


async def by_via(folder: Path) -> Outcome:
    before = lines_of(folder)
    way = way_of("ssh", folder / "config")
    assert way is not None
    node = Piped(Target("node0", "node0"), way, asyncio.Semaphore(1))
    await node.connect()
    answer = "in"
    try:
        assert (await node.run(["echo", "there"])).stdout == b"there\n"
    except TransportError as error:
        answer = "refused" if re.search("(?i)host key verification failed|revoked", str(error)) else str(error)
    finally:
        await node.close()
    return Outcome(answer, learned(folder, before))


def lines_of(folder: Path) -> list[str]:
    return (folder / "known_hosts").read_text().splitlines()


def learned(folder: Path, before: list[str]) -> tuple[str, ...]:
    return tuple(sorted((Counter(lines_of(folder)) - Counter(before)).elements()))


def servers(shown: str) -> Host:
    names = ("host", "ec-host") if shown == "two keys" else ("host",)
    principals = {"certificate": ["127.0.0.1", "the-alias"], "certificate for another": ["other"]}.get(shown)
    certificate = principals and key("authority").generate_host_certificate(key("host"), "it", principals=principals)
    return Host(host_keys=names, host_certificate=certificate or None)


@pytest.mark.parametrize("every", [pytest.param(1, id="all", marks=pytest.mark.slow), pytest.param(11, id="some")])
@pytest.mark.parametrize("shown", SHOWN)
async def test_the_same_answer_row_by_row(tmp_path: Path, shown: str, every: int) -> None:
    turn = asyncio.Semaphore(AT_ONCE)
    different: list[str] = []
    seen: Counter[str] = Counter()

    async def compare(number: int, row: Row, host: Host, jump: Host) -> None:
        async with turn:
            ours = await by_hangtop(config(tmp_path / f"ours{number}", row, host, jump))
            theirs = await by_ssh(config(tmp_path / f"ssh{number}", row, host, jump), row)
            piped = await by_via(config(tmp_path / f"via{number}", row, host, jump))
        seen[theirs.answer] += 1
        if piped != theirs._replace(answer="in" if theirs.answer == "in" else "refused"):
            different.append(f"{row}: ssh {theirs}, --via ssh {piped}")
        left = ours.answer == "left to ssh" and "certificate" in shown and "authority" in row.known
        if ours != theirs and not left:
            different.append(f"{row}: ssh {theirs}, hangtop {ours}")

    async with serve(servers(shown)) as host, serve(Host(host_keys=("jump",))) as jump:
        table = [row for row in rows() if row.shown == shown]
        table = table[:: every if len(table) > 100 else min(every, 5)]
        await asyncio.gather(*(compare(number, row, host, jump) for number, row in enumerate(table)))
    assert not different, "\n".join(different)
    assert set(seen) >= {"in", "changed", "revoked"}, str(seen)
