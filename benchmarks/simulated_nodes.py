"""Thousands of simulated nodes: one process with an SSH server that sends an agent's samples, once a second per node.

    with simulated_nodes(2048) as simulated:        # in its own process
        Fleet(resolve(simulated.names), settings, …, ssh_config=simulated.ssh_config)

Each node has eight moving ranks on eight GPUs; the first flush carries the constant samples. Nodes tick spread over the
second, like real ones. The server accepts every login; other benchmarks measure handshakes with a real sshd. Like
OpenSSH's sshd, and unlike asyncssh, the server sends no ignored packet before each of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import asyncssh
from asyncssh.constants import MSG_IGNORE

from collectors.node import wire
from collectors.samples.gpus import GpuFacts, GpuProcess, GpuProcesses
from collectors.samples.host import Counters, HostSample, Interface, PortFacts
from collectors.samples.stream import SourceState, Tick
from tests.support.made import gpu_row, hello, process, pulse

EACH = 8
PID = 41_000
VARIANTS = 16
SLOTS = 100
"""Number of time slots in a second, over which the ticks of nodes are spread."""

_REPOSITORY = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class Simulated:
    """The simulated nodes."""

    names: tuple[str, ...]
    ssh_config: Path
    pid: int
    """Pid of the process that simulates them."""


@contextlib.contextmanager
def simulated_nodes(count: int) -> Iterator[Simulated]:
    """Start the process of the nodes, and end it with the block."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        words = [sys.executable, "-m", "benchmarks.simulated_nodes", str(count), str(folder)]
        players = subprocess.Popen(words, cwd=_REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            assert players.stdout is not None
            if players.stdout.readline().strip() != "ready":
                raise RuntimeError("the simulated nodes did not start")
            names = tuple(f"sim{number:04d}" for number in range(count))
            yield Simulated(names, folder / "config", players.pid)
        finally:
            players.kill()
            players.communicate()


# --- samples of a node ------------------------------------------------------------------------------------------------


def lines(samples: list[NamedTuple]) -> bytes:
    """Samples, encoded as by the node side."""
    return b"".join(wire.lines((type(sample).__name__, wire.fields(sample)) for sample in samples))


def standing(number: int, count: int, now: float) -> bytes:
    """The samples that a node sends once."""
    buses = [f"00000000:{local:02X}:00.0" for local in range(EACH)]
    first = number * EACH
    samples: list[NamedTuple] = [
        hello(now, hostname=f"sim{number:04d}", boot_id=f"boot-{number}", pid=4711),
        *(SourceState(source, "ok", "", now) for source in ("ranks", "gpus", "fabric", "network", "logs", "host")),
        Interface("eth0", 9000, 25_000, True, [f"10.0.{number // 250}.{number % 250 + 1}"], "physical"),
        GpuProcesses([GpuProcess(bus, PID + local, 2**35, 90, "python") for local, bus in enumerate(buses)]),
    ]  # fmt: skip
    ranks, gpus, ports = [], [], []
    for local, bus in enumerate(buses):
        ports.append(PortFacts(f"mlx5_{local}", 1, "InfiniBand", "ACTIVE", "LinkUp", 400.0))
        gpus.append(GpuFacts(local, f"GPU-{number}-{local}", bus, "NVIDIA H100", 80 * 2**30, 700.0, 1980, 5, 16))
        ranks.append(process(
            first + local, PID + local, started=now - 7300, local_rank=local, world_size=count * EACH,
            local_world_size=EACH, launcher="torchrun", run_id="train", restart=0,
            command="python train.py --config llama-8b.yaml", cwd="/home/ada/run", user="ada", uid=1000,
            stdout=f"/logs/rank{first + local}.out", stderr=f"/logs/rank{first + local}.err",
            env={"NCCL_DEBUG": "WARN"}, versions={"torch": "2.13.0"},
        ))  # fmt: skip
    samples += [*ranks, *gpus, *ports]
    return lines(samples)


def moving(variant: int) -> bytes:
    """The samples that a node sends every second, without its tick; variants differ in every figure."""
    dice = random.Random(variant)
    samples: list[NamedTuple] = [
        pulse(
            PID + local, state="R", wchan="", cpu_user=100 + variant * 0.97, voluntary_switches=500 + variant * 40,
            rss=6 * 2**30 + dice.randrange(2**20), threads=64, read_bytes=variant * 2**20, helpers_cpu=variant / 3,
        )
        for local in range(EACH)
    ]  # fmt: skip
    samples += [
        HostSample(128, 2**40, 1.7e9, {"nvidia": "550.54.15"}, 3.2 + variant / 10, 900 * 2**30, 0.4),
        Counters("eth0", "interface", {"received": variant * 2**20, "sent": variant * 2**19}),
    ]
    samples += [
        gpu_row(
            local, temperature=dice.randrange(50, 70), utilization=dice.randrange(90, 101), event_reasons=0x4,
            memory_used=(58 + dice.randrange(9)) * 2**30, sm_clock=1980 - 15 * dice.randrange(4),
            power=round(dice.uniform(600, 690), 2),
        )
        for local in range(EACH)
    ]  # fmt: skip
    for local in range(EACH):
        traffic = {name: variant * 2**33 + dice.randrange(2**32) for name in ("port_rcv_data", "port_xmit_data")}
        samples.append(Counters(f"mlx5_{local}/1", "sysfs", traffic))
    return lines(samples)


# --- the process of the nodes -------------------------------------------------------------------------------------


class Players:
    """All nodes; each connection becomes the next node."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.made = 0
        self.slots: list[set[SimulatedChannel]] = [set() for _ in range(SLOTS)]
        self._variants = [moving(variant) for variant in range(VARIANTS)]

    async def play(self) -> None:
        """Send ticks for ever, slot by slot."""
        began = time.monotonic()
        step = 0
        while True:
            step += 1
            await asyncio.sleep(max(0.0, began + step / SLOTS - time.monotonic()))
            for session in tuple(self.slots[step % SLOTS]):
                if step // SLOTS % session.every == 0:
                    self.tick(session)

    def tick(self, session: SimulatedChannel) -> None:
        """One flush of one node."""
        session.seq += 1
        tick = Tick(session.seq, time.time(), 0.004, 0.1 + session.seq * 0.004, 9 * 2**20)
        session.write(self._variants[(session.number + session.seq) % VARIANTS] + lines([tick]))


_INTERVAL = re.compile(rb'"[Ss]ettings"[:,] ?\[([0-9.]+),')
"""In the arguments of the payload, and in lines of control."""


class SimulatedChannel(asyncssh.SSHServerSession[bytes]):
    """One channel: the stream of a node, or a command that does nothing."""

    def __init__(self, players: Players) -> None:
        self.number = 0
        self.seq = 0
        self.every = 1
        """Seconds between two ticks, as the control line asks for."""
        self._players = players
        self._streams = False
        self._channel: asyncssh.SSHServerChannel[bytes] | None = None

    def write(self, data: bytes) -> None:
        """Write to the channel, unless it is closing."""
        if self._channel is not None and not self._channel.is_closing():
            self._channel.write(data)

    def connection_made(self, chan: asyncssh.SSHServerChannel[bytes]) -> None:
        """The channel is open."""
        self._channel = chan

    def data_received(self, data: bytes, _datatype: asyncssh.DataType) -> None:
        """Take the interval from the settings; ignore payload and heartbeats."""
        if asked := _INTERVAL.findall(data):
            self.every = max(1, round(float(asked[-1])))

    def exec_requested(self, command: str) -> bool:
        """Accept a command; only the node side gets a stream."""
        self._streams = "hangtop" in command
        return True

    def session_started(self) -> None:
        """Start the stream, or exit at once."""
        assert self._channel is not None
        if not self._streams:
            self._channel.exit(0)
            return
        self.number = self._players.made % self._players.count
        self._players.made += 1
        self.write(standing(self.number, self._players.count, time.time()))
        self._players.tick(self)
        self._players.slots[self.number * SLOTS // self._players.count].add(self)

    def connection_lost(self, _exc: Exception | None) -> None:
        """Stop the stream."""
        self._channel = None
        self._players.slots[self.number * SLOTS // self._players.count].discard(self)


class SimulatedServer(asyncssh.SSHServer):
    """A node's SSH server, which accepts every login."""

    def __init__(self, players: Players) -> None:
        self._players = players

    def begin_auth(self, _username: str) -> bool:
        """Require no authentication."""
        return False

    def session_requested(self) -> SimulatedChannel:
        """Make a channel."""
        return SimulatedChannel(self._players)


def speak_as_sshd() -> None:
    """Suppress asyncssh's ignored packets: no sshd sends them, and they double the reader's cost."""
    send: Callable[..., None] = asyncssh.SSHServerConnection.send_packet

    def send_packet(connection: asyncssh.SSHServerConnection, kind: int, *parts: bytes, **named: object) -> None:
        if kind != MSG_IGNORE:
            send(connection, kind, *parts, **named)

    asyncssh.SSHServerConnection.send_packet = send_packet  # type: ignore[method-assign,assignment]


def _end_with_input() -> None:
    """End with the parent process, even if it crashes."""
    sys.stdin.read()
    os._exit(0)


async def main(count: int, folder: Path) -> None:
    """Serve until standard input ends or the process is killed."""
    speak_as_sshd()
    host_key = asyncssh.generate_private_key("ssh-ed25519")
    players = Players(count)
    server = await asyncssh.listen(
        "127.0.0.1", 0, server_factory=lambda: SimulatedServer(players), server_host_keys=[host_key], encoding=None,
        line_editor=False, backlog=512, login_timeout=0,
    )  # fmt: skip
    public = host_key.export_public_key("openssh").decode()
    (folder / "known_hosts").write_text(f"simulated {public}")
    common = (
        f"Host sim*\n  HostName 127.0.0.1\n  Port {server.get_port()}\n  User root\n  IdentityFile none\n"
        f"  IdentityAgent none\n  BatchMode yes\n  HostKeyAlias simulated\n"
        f"  UserKnownHostsFile {folder / 'known_hosts'}\n"
    )
    (folder / "config").write_text(common)
    print("ready", flush=True)
    threading.Thread(target=_end_with_input, daemon=True).start()
    await players.play()


if __name__ == "__main__":
    from collectors.fleet.fleet import allow_files

    allow_files()
    asyncio.run(main(int(sys.argv[1]), Path(sys.argv[2])))
