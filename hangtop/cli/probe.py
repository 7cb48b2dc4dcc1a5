"""Commands that make a probe: ``hangtop probe …``, ``hangtop flame`` and ``hangtop preflight``."""

from __future__ import annotations

import functools
from pathlib import Path

import click

from hangtop.cli.node_command import NOT_WATCHING, NodeRun, node_command
from hangtop.cli.options import RANKS, Decorator, converted
from hangtop.session.probes import NEEDED, Probe
from hangtop.session.probes.capture import capture_probe
from hangtop.session.probes.collectives import collectives_probe
from hangtop.session.probes.flame import flame_probe
from hangtop.session.probes.pairs import infiniband_probe, path_probe
from hangtop.session.probes.preflight import NEEDED as FOR_PREFLIGHT
from hangtop.session.probes.preflight import PORT, preflight_probe

probe_command = functools.partial(
    node_command, changes="probes: they load the network", needs=NEEDED, node_needed=False
)
OUT = click.option("--out", "folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path), default=Path(),
                   show_default=True, help="Folder for the files.")  # fmt: skip


def seconds_option(default: float, most: float, what: str, *, whole: bool = False) -> Decorator:
    """``--seconds S``."""
    kind = click.IntRange(1, int(most)) if whole else click.FloatRange(0.1, most)
    return click.option("--seconds", metavar="S", type=kind, default=default, show_default=True, help=what)


SENDING = "Seconds of sending per direction of a pair."


@probe_command("collectives")
@click.option("--backend", type=click.Choice(["auto", "gloo", "nccl"]), default="auto", show_default=True,
              help="auto: nccl where every node has idle GPUs, else gloo.")  # fmt: skip
@click.option("--force", is_flag=True, help="Use nccl on GPUs that are in use.")
async def collectives(run: NodeRun, backend: str, force: bool) -> Probe:
    """Measure all_reduce between nodes, and name the node, link or rank that is slow, blocked or wrong.

    Needs two nodes, or one with two GPUs. gloo tests path, interface and rendezvous and is safe next to a job; nccl
    tests GPUs and fabric and is refused on GPUs that are in use. Exit code: 0 ok, 1 slow or failed, 2 wrong usage, 3
    no node reachable.
    """
    return collectives_probe(run.session, backend=backend, force=force)


@probe_command("path")
@seconds_option(0.5, 30, SENDING)
async def path(run: NodeRun, seconds: float) -> Probe:
    """Measure the path between nodes: TCP connect, round trip, MTU, loss, throughput, in both directions.

    Uses iperf3 for the throughput if both nodes have it. Measures every pair of up to 8 nodes; above, neighbours, then
    the suspects. Exit code: 0 ok, 1 slow or failed, 2 wrong usage, 3 no node reachable.
    """
    return path_probe(run.session, seconds=seconds)


@probe_command("infiniband")
@seconds_option(2, 30, SENDING, whole=True)
async def infiniband(run: NodeRun, seconds: int) -> Probe:
    """Measure InfiniBand and RoCE between nodes: state and MTU of ports, bandwidth, ibping, route through the fabric.

    Uses ibv_devinfo, ib_write_bw, ibping and ibtracert if they are installed and permitted, and says what was not
    possible, and why. Exit code: 0 ok, 1 slow or failed, 2 wrong usage, 3 no node reachable.
    """
    run.status.say("looking for adapters and tools")
    return await infiniband_probe(run.session, seconds=seconds)


@probe_command("capture", changes="captures: they run tcpdump on the nodes", hidden={*NOT_WATCHING} - {"sudo"})
@seconds_option(5.0, 600, "Seconds of capturing.")
@OUT
async def capture(run: NodeRun, seconds: float, folder: Path) -> Probe:
    """Capture the TCP headers of the job's network with tcpdump, as local pcap files.

    Needs tcpdump on the nodes, and root there, or --sudo. Writes nothing on the nodes. Exit code: 0 ok, 1 no capture, 2
    wrong usage, 3 no node reachable.
    """
    return capture_probe(run.session, folder, seconds=seconds)


@node_command("flame")
@RANKS
@seconds_option(10.0, 600, "Seconds of sampling.")
@OUT
async def flame(run: NodeRun, ranks: frozenset[int] | None, seconds: float, folder: Path) -> Probe:
    """Sample the stacks of ranks for some seconds, without pausing them, and save a flame graph as SVG.

    Prints the heaviest frames. Exit code: 0 if every rank gave samples, 1 if a rank did not, 2 wrong usage, 3 no node
    reachable.
    """
    return flame_probe(run.session, ranks, folder, seconds=seconds)


def _master(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon:
        return text, PORT
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"{text!r} is not HOST or HOST:PORT")
    return host, int(port)


@node_command("preflight", needs=FOR_PREFLIGHT, node_needed=False)
@click.option("--master", metavar="HOST[:PORT]", callback=converted(_master),
              help="Rendezvous of the ranks; default: the job's own, else the first node.")  # fmt: skip
async def preflight(run: NodeRun, master: tuple[str, int] | None) -> Probe:
    """Check nodes before or during a job: what would stop it, and the command that fixes it.

    Reads, listens on ports for a moment, and connects nodes with each other; changes nothing. Exit code: 0 no check
    failed, 1 a check failed, 2 wrong usage, 3 no node reachable.
    """
    return preflight_probe(run.session, master)
