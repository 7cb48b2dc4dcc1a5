"""``hangtop probe path``, ``infiniband`` and ``capture``: what lies under the collectives."""

from __future__ import annotations

import time
from pathlib import Path

import click

from hangtop.cli.node_command import NOT_WATCHING, NodeRun, Reply
from hangtop.cli.probe_reply import probe_command, run_probe
from hangtop.session.probes.capture import capture_probe
from hangtop.session.probes.fabric import fabric_probe
from hangtop.session.probes.path import path_probe


@probe_command("path")
@click.option("--seconds", metavar="S", type=click.FloatRange(0.1, 30), default=0.5, show_default=True,
              help="Sending time of one direction of one pair.")  # fmt: skip
@click.option("--iperf3/--no-iperf3", "iperf", default=True, show_default=True,
              help="Take the throughput from iperf3 between nodes that have it.")  # fmt: skip
async def path(run: NodeRun, seconds: float, iperf: bool) -> Reply:
    """Measure the path between nodes: TCP connect, round trip, MTU, loss, throughput, in both directions.

    And ask each node what it takes the others' names for. Up to 16 nodes every pair is measured, above, every node
    against the first. Exit code: 0 ok, 1 slow or failed, 2 wrong usage, 3 no node reachable.
    """
    return await run_probe(run, path_probe(run.session, seconds=seconds, iperf=iperf), time.monotonic())


@probe_command("infiniband")
@click.option(
    "--device", metavar="NAME", default="", help="Adapter to measure with (mlx5_0); else the first active one."
)
@click.option("--seconds", metavar="S", type=click.IntRange(1, 30), default=2, show_default=True,
              help="Sending time of one direction of one pair.")  # fmt: skip
async def infiniband(run: NodeRun, device: str, seconds: int) -> Reply:
    """Measure InfiniBand and RoCE between nodes: state and MTU of ports, bandwidth, ibping, the way through the fabric.

    Uses ibv_devinfo, ib_write_bw or ib_send_bw, ibping and ibtracert where they are installed and allowed, and says
    what was not possible and why. Exit code: 0 ok, 1 slow or failed, 2 wrong usage, 3 no node reachable.
    """
    began = time.monotonic()
    run.status.say("looking for adapters and tools")
    return await run_probe(run, await fabric_probe(run.session, device=device, seconds=seconds), began)


@probe_command(
    "capture", changes="captures: they run tcpdump on the nodes",
    hidden=[name for name in NOT_WATCHING if name != "sudo"], yes="Do not ask before a capture beside a running job.",
)  # fmt: skip
@click.option(
    "--seconds", metavar="S", type=click.FloatRange(0.1, 600), default=5.0, show_default=True, help="How long."
)
@click.option("--max-mb", "most", metavar="MB", type=click.IntRange(1, 4096), default=16, show_default=True,
              help="Most megabytes of one node's capture.")  # fmt: skip
@click.option(
    "--out", "folder", metavar="DIR", type=click.Path(file_okay=False), default=".", help="Folder for the pcap files."
)
async def capture(run: NodeRun, seconds: float, most: int, folder: str) -> Reply:
    """Capture the TCP headers of the job's network with tcpdump, as pcap files here.

    Needs tcpdump on the nodes, and root there, or --sudo. Nothing is written on the nodes. Exit code: 0 ok, 1 no
    capture, 2 wrong usage, 3 no node reachable.
    """
    probe = capture_probe(
        run.session, Path(folder), seconds=seconds, most=most * 1_000_000, sudo=run.options.sudo
    )  # fmt: skip
    return await run_probe(run, probe, time.monotonic())
