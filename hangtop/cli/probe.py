"""``hangtop probe …``: measurements between nodes, by name; without a name, collectives are measured."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from hangtop.cli.answer import Answer, as_json, as_text, wants_colour
from hangtop.cli.groups import DefaultGroup
from hangtop.cli.node_command import NOT_WATCHING, NodeRun, Reply, finish, node_command, painted
from hangtop.cli.options import Decorator, SectionedCommand
from hangtop.cli.terminal import Status, interrupted_cleanly
from hangtop.diagnosis.finding import Verdict
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import outcome_words
from hangtop.session.options import SessionOptions, completed
from hangtop.session.probes import NEEDED, Probe, ProbeRefused, ProbeResult
from hangtop.session.probes.capture import capture_probe
from hangtop.session.probes.collectives import collectives_probe
from hangtop.session.probes.infiniband import infiniband_probe
from hangtop.session.probes.path import path_probe
from hangtop.session.probes.traces import traces

probe_command = functools.partial(
    node_command, yes="Do not ask before a probe beside a running job.",
    changes="probes: they load the network", hidden=NOT_WATCHING, needs=NEEDED, node_needed=False,
)  # fmt: skip
"""A command that measures something on nodes."""


async def run_probe(run: NodeRun, probe: Probe, began: float) -> Reply:
    """Show the command, ask where a job runs beside the probe, run it, and reply."""
    run.status.clear()
    if probe.command:
        click.echo(probe.command, err=True)
    job = run.session.job()
    beside = [rank for rank in job.ranks if rank.gone_at is None and rank.node in probe.nodes]
    if beside:
        run.agree(f"{len(beside)} ranks of a job run there. {probe.risk} Go on?")
    return probe_reply(await run.measure(probe), job, began, run.options)


def probe_reply(result: ProbeResult, job: Job, began: float, options: SessionOptions | None = None) -> Reply:
    """The reply of a probe; with ``options`` the commands of next steps name the way to the nodes."""
    outcome = "healthy" if result.outcome == "ok" else "unknown"
    verdict = Verdict(outcome, result.summary, result.findings, result.unknown)  # type: ignore[arg-type]
    if options is not None:
        verdict = completed(verdict, options, job.nodes)
    answer = Answer(verdict, job, time.monotonic() - began)
    document = as_json(answer) | {"verdict": result.outcome} | dict(result.figures)
    return Reply(document, _lines(answer, result), 3 if answer.exit_code == 3 else int(result.outcome != "ok"))


def _lines(answer: Answer, result: ProbeResult) -> Iterator[str]:
    yield f"{outcome_words(result.outcome).upper()}  {answer.verdict.summary}\n"
    yield from painted(result.lines)
    if answer.verdict.findings:
        text = as_text(answer, colour=wants_colour(sys.stdout))
        yield "".join(text.partition("\n\n")[1:]).rstrip("\n")


def seconds_option(default: float, most: float, what: str, *, whole: bool = False) -> Decorator:
    """``--seconds S``."""
    kind = click.IntRange(1, int(most)) if whole else click.FloatRange(0.1, most)
    return click.option("--seconds", metavar="S", type=kind, default=default, show_default=True, help=what)


SENDING = "Sending time of one direction of one pair."


@probe_command("collectives")
@click.option("--backend", type=click.Choice(["auto", "gloo", "nccl"]), default="auto", show_default=True,
              help="auto: nccl where every node has idle GPUs, else gloo.")  # fmt: skip
@click.option("--force", is_flag=True, help="Use nccl on GPUs that are in use.")
async def collectives(run: NodeRun, **wishes: Any) -> Reply:
    """Measure all_reduce between nodes, and name the node, link or rank that is slow, blocked or wrong.

    At least two nodes, or one with two GPUs. gloo proves path, interface and rendezvous and is safe beside a job; nccl
    proves GPUs and fabric and is refused on GPUs that are in use. Exit code: 0 ok, 1 slow or failed, 2 wrong usage, 3
    no node reachable.
    """
    began = time.monotonic()
    try:
        probe = collectives_probe(run.session, **wishes)
    except ProbeRefused as refused:
        raise click.UsageError(str(refused)) from None
    return await run_probe(run, probe, began)


@probe_command("path")
@seconds_option(0.5, 30, SENDING)
@click.option("--iperf3/--no-iperf3", "iperf", default=True, show_default=True,
              help="Take the throughput from iperf3 between nodes that have it.")  # fmt: skip
async def path(run: NodeRun, seconds: float, iperf: bool) -> Reply:
    """Measure the path between nodes: TCP connect, round trip, MTU, loss, throughput, in both directions.

    Up to 8 nodes every pair is measured; above, neighbours, then the suspects. Exit code: 0 ok, 1 slow or failed,
    2 wrong usage, 3 no node reachable.
    """
    return await run_probe(run, path_probe(run.session, seconds=seconds, iperf=iperf), time.monotonic())


@probe_command("infiniband")
@click.option(
    "--device", metavar="NAME", default="", help="Adapter to measure with (mlx5_0); else the first active one."
)
@seconds_option(2, 30, SENDING, whole=True)
async def infiniband(run: NodeRun, device: str, seconds: int) -> Reply:
    """Measure InfiniBand and RoCE between nodes: state and MTU of ports, bandwidth, ibping, the way through the fabric.

    Uses ibv_devinfo, ib_write_bw, ibping and ibtracert where they are installed and allowed, and says what was not
    possible and why. Exit code: 0 ok, 1 slow or failed, 2 wrong usage, 3 no node reachable.
    """
    began = time.monotonic()
    run.status.say("looking for adapters and tools")
    return await run_probe(run, await infiniband_probe(run.session, device=device, seconds=seconds), began)


@probe_command(
    "capture", changes="captures: they run tcpdump on the nodes",
    hidden=[name for name in NOT_WATCHING if name != "sudo"], yes="Do not ask before a capture beside a running job.",
)  # fmt: skip
@seconds_option(5.0, 600, "How long.")
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
    sudo, most = run.options.sudo, most * 1_000_000
    probe = capture_probe(run.session, Path(folder), seconds=seconds, most=most, sudo=sudo)
    return await run_probe(run, probe, time.monotonic())


@click.command("trace", cls=SectionedCommand)
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@click.option("--json", is_flag=True, help="Answer as JSON (docs/findings.md), with every rank and collective.")
def trace(paths: tuple[str, ...], json: bool) -> None:
    """Read profiler traces (torch.profiler, Kineto; .json, .json.gz) and say who computes, communicates and waits.

    PATH is a file, a folder or a glob on this machine. Exit code: 0 ok, 1 slow or nothing to read, 2 wrong usage.
    """
    finish(interrupted_cleanly(_traces(paths)), as_json=json)


async def _traces(paths: tuple[str, ...]) -> Reply:
    began, status = time.monotonic(), Status()
    try:
        result = await traces(paths).run(status.say)
    finally:
        status.clear()
    return probe_reply(result, Job(now=time.time(), watched=0.0, live=False), began)


command = DefaultGroup(
    "probe",
    default="collectives",
    commands={one.name or "": one for one in (collectives, path, infiniband, trace, capture)},
    help="Measure between nodes: collectives (the default), the path under them, the fabric, traces, packets.",
)
