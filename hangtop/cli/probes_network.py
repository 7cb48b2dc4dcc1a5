"""``hangtop probe path``, ``infiniband`` and ``capture``: what lies under the collectives."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from collectors.probes.capture.run import Captured
from collectors.probes.capture.run import capture as capture_packets
from collectors.probes.capture.run import describe as describe_capture
from collectors.probes.infiniband import survey as fabric
from collectors.probes.path.survey import describe as describe_path
from collectors.samples.asked import PathFigure
from hangtop.cli.node_command import NOT_WATCHING, NodeRun, Reply
from hangtop.cli.probe_reply import LOADS, probe_command, probe_reply
from hangtop.diagnosis.measured import captured, surroundings
from hangtop.diagnosis.node_order import arrangement
from hangtop.diagnosis.phrasing import count
from hangtop.session.asking.capturing import capture_nodes, names_by_address, read
from hangtop.session.asking.capturing import lines as capture_lines
from hangtop.session.asking.infiniband import FabricSurvey, judged
from hangtop.session.asking.infiniband import lines as fabric_lines
from hangtop.session.asking.paths import PathResult, measure
from hangtop.session.asking.probing import path_nodes
from hangtop.session.probed.path_lines import path_lines
from hangtop.session.probed.shades import plain


@probe_command("path")
@click.option("--seconds", metavar="S", type=click.FloatRange(0.1, 30), default=0.5, show_default=True,
              help="Sending time of one direction of one pair.")  # fmt: skip
@click.option("--iperf3/--no-iperf3", "iperf", default=True, show_default=True,
              help="Take the throughput from iperf3 between nodes that have it.")  # fmt: skip
async def path(run: NodeRun, seconds: float, iperf: bool) -> Reply:
    """Measure the path between nodes: TCP connect, round trip, MTU, loss, throughput, in both directions.

    And ask each node how it sees the others: names, routes, ping. Up to 16 nodes every pair is measured, above, every
    node against the first. Exit code: 0 ok, 1 slow or failed, 2 wrong usage, 3 no node reachable.
    """
    began, job = time.monotonic(), run.session.job()
    taking_part, absent = path_nodes(run.session, job)
    run.agree_beside_job(describe_path(), (node.name for node in taking_part), job, LOADS)
    result = await measure(job, taking_part, absent, seconds=seconds, iperf=iperf, progress=run.status.say)
    figures = {
        "backend": "path", "world_size": result.report.world_size, "paths": list(map(_path_row, result.figures)),
        "interfaces": {name: interface for name, (interface, _) in result.interfaces.items()},
        "names": _names(result), "routes": _routes(result), "ping": list(map(asdict, result.pings())),
    }  # fmt: skip
    table = plain(path_lines(result, arrangement(job, set(job.nodes))))
    return probe_reply(result.outcome, result.summary, result.findings, job=job, began=began, figures=figures,
                       table=table, options=run.options)  # fmt: skip


def _path_row(figure: PathFigure) -> dict[str, Any]:
    return {
        "a": figure.a, "b": figure.b, "connect_us": _micro(figure.connect), "rtt_us": _micro(figure.round_trip),
        "mtu": figure.mtu, "local_mtu": figure.local_mtu, "interface": figure.interface, "source": figure.source,
        "throughput_GBps": None if figure.throughput is None else figure.throughput / 1e9,
        "throughput_source": figure.method, "retransmitted": figure.retransmitted, "error": figure.error,
    }  # fmt: skip


def _micro(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1e6, 1)


def _names(result: PathResult) -> list[dict[str, Any]]:
    """What each node takes each name for, and each address's name as it has it."""
    rows = []
    for node, answers in sorted(result.seen.answers.items()):
        for one in answers:
            if one.name in {"resolve", "reverse", "hosts"}:
                value = list(one.value) if isinstance(one.value, list) else []
                took = value.pop(0) if one.name != "hosts" and value else None
                rows.append({"node": node, "question": one.name, "subject": one.subject, "answer": value,
                             "took_s": took, "error": one.error})  # fmt: skip
    return rows


def _routes(result: PathResult) -> list[dict[str, Any]]:
    keys = ("interface", "gateway", "source")
    return [
        {"a": route.a, "b": route.b, "there": dict(zip(keys, route.there, strict=True)),
         "back": dict(zip(keys, route.back, strict=True)), "differ": route.why}
        for route in surroundings.routes(result.seen)
    ]  # fmt: skip


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
    began, at, job = time.monotonic(), time.time(), run.session.job()
    taking_part, absent = path_nodes(run.session, job)
    run.status.say("looking for adapters and tools")
    looked = await fabric.look(taking_part)
    commands, directions = fabric.describe(looked, device, seconds), []
    if commands:
        shown = "\n".join(["", *commands])
        run.agree_beside_job(shown, (node.name for node in taking_part), job, LOADS)
        directions = await fabric.survey(
            taking_part, looked, device=device, seconds=seconds, progress=run.status.say
        )  # fmt: skip
    found = judged(FabricSurvey(job, looked, directions, absent, at), time.monotonic() - began)
    figures = {
        "backend": "infiniband", "ports": [asdict(port) for port in found.ports],
        "directions": [asdict(one) for one in directions],
    }  # fmt: skip
    return probe_reply(found.outcome, found.summary, found.findings, job=job, began=began, figures=figures,
                       table=fabric_lines(found.ports, directions, found.unknown), unknown=found.unknown,
                       options=run.options)  # fmt: skip


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
    """Capture the TCP headers of the job's network with tcpdump, and count what was sent again.

    Needs tcpdump on the nodes, and root there, or --sudo. Nothing is written on the nodes. Exit code: 0 ok, 1 loss or
    no capture, 2 wrong usage, 3 no node reachable.
    """
    began, job, size, sudo = time.monotonic(), run.session.job(), most * 1_000_000, run.options.sudo
    places, absent = capture_nodes(run.session, job)
    *commands, how = describe_capture(places, seconds, size, sudo=sudo)
    effect = "The headers of their packets are copied and sent here meanwhile."
    run.agree_beside_job("\n".join(["", *commands, how]), (node.name for node in places), job, effect)
    run.status.say(f"capturing on {count(len(places), 'node')} for {seconds:g} s")
    name = time.strftime("capture-%Y%m%d-%H%M%S")
    try:
        captures = await capture_packets(places, Path(folder), name, seconds=seconds, most=size, sudo=sudo)
    except OSError as error:
        raise click.ClickException(f"{folder}: the capture cannot be written: {error.strerror or error}") from None
    captures += [Captured(node, None, 0, None, None, why) for node, why in absent.items()]
    run.status.say("reading what came")
    traffic = await read(captures, names_by_address(job))
    findings = tuple(captured.findings(traffic, time.time()))
    failed = [one for one in captures if one.path is None]
    figures = {
        "backend": "tcpdump", "captures": list(map(_capture_row, captures)),
        "traffic": [asdict(one) | {"share": one.share} for one in traffic],
    }  # fmt: skip
    return probe_reply(
        "failed" if failed else "slow" if findings else "ok",
        findings[0].summary if findings else _summary(captures, failed),
        findings, job=job, began=began, figures=figures, table=capture_lines(captures, traffic),
    )  # fmt: skip


def _summary(captures: Sequence[Captured], failed: Sequence[Captured]) -> str:
    if failed:
        return f"no capture on {', '.join(one.node for one in failed)}: {failed[0].why}"
    return f"{count(len(captures), 'capture')}, no direction with noticeable loss"


def _capture_row(one: Captured) -> dict[str, Any]:
    return {
        "node": one.node, "file": str(one.path) if one.path else None, "bytes": one.size, "packets": one.packets,
        "dropped_by_kernel": one.dropped, "why": one.why,
    }  # fmt: skip
