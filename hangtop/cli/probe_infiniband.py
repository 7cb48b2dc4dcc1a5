"""``hangtop probe infiniband NODE…``: the fabric, measured with the tools that the nodes have for it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import click

from collectors.probes.infiniband.survey import Direction, Looked, describe, look, survey
from hangtop.cli.answer import Answer
from hangtop.cli.common import connection, nodes
from hangtop.cli.connecting import connected_session
from hangtop.cli.consent import confirm, refuse_read_only
from hangtop.cli.probe_answer import answered
from hangtop.cli.running import interrupted_cleanly
from hangtop.cli.status import Status
from hangtop.diagnosis import infiniband, probes
from hangtop.diagnosis.finding import Unknown, Verdict
from hangtop.diagnosis.infiniband import Carried, PortSeen
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.words import count, listed
from hangtop.session.options import SessionOptions
from hangtop.session.probing import path_nodes


@dataclass(frozen=True, slots=True)
class Fabric:
    """What one run brought."""

    job: Job
    looked: Mapping[str, Looked]
    directions: Sequence[Direction]
    absent: Mapping[str, str]
    at: float


@click.command("infiniband")
@nodes
@connection
@click.option(
    "--device", metavar="NAME", default="", help="Adapter to measure with (mlx5_0); else the first active one."
)
@click.option("--seconds", type=click.IntRange(1, 30), default=2, show_default=True,
              help="Sending time of one direction of one pair.")  # fmt: skip
@click.option("--yes", is_flag=True, help="Do not ask before a probe beside a running job.")
@click.option("--json", is_flag=True, help="Answer as JSON (docs/findings.md).")
@click.pass_context
def command(ctx: click.Context, options: SessionOptions, device: str, seconds: int, yes: bool, json: bool) -> None:
    """Measure InfiniBand and RoCE between nodes: state and MTU of ports, bandwidth, ibping, the way through the fabric.

    Uses ibv_devinfo, ib_write_bw or ib_send_bw, ibping and ibtracert where they are installed and allowed, and says
    what was not possible and why. Exit code: 0 ok, 1 slow or failed, 2 wrong usage, 3 no node reachable.
    """
    refuse_read_only(options)
    began = time.monotonic()
    fabric = interrupted_cleanly(_probe(options, device, seconds, yes))
    ports = seen_ports(fabric.job, fabric.looked)
    carried = [Carried(one.a, one.b, one.ports, one.gbits, one.error) for one in fabric.directions]
    report = infiniband.report(ports, carried, fabric.absent, fabric.at, time.monotonic() - began)
    found = infiniband.findings(ports, carried, report)
    outcome = probes.outcome(report, found)
    summary = found[0].summary if found else report.why or _summary(fabric, len(report.pairs))
    unknown = _unknown(fabric)
    verdict = Verdict("healthy" if outcome == "ok" else "unknown", summary, found, unknown)
    more: dict[str, Any] = {
        "backend": "infiniband", "ports": [asdict(port) for port in ports],
        "directions": [asdict(one) for one in fabric.directions],
    }  # fmt: skip
    answered(ctx, Answer(verdict, fabric.job, time.monotonic() - began), outcome, figures=more,
             table=_table(ports, fabric.directions, unknown), json=json)  # fmt: skip


def _summary(fabric: Fabric, pairs: int) -> str:
    measured = {name for one in fabric.directions for name in (one.a, one.b)}
    left = sorted(set(fabric.looked) - measured)
    return f"{count(pairs, 'pair')}, all well" + (f"; not measured: {listed(left)}" if left else "")


async def _probe(options: SessionOptions, device: str, seconds: int, yes: bool) -> Fabric:
    status = Status()
    async with connected_session(options, status) as session:
        job = session.job()
        taking_part, absent = path_nodes(session, job)
        status.say("looking for adapters and tools")
        looked = await look(taking_part)
        status.clear()
        commands = describe(looked, device, seconds)
        at = time.time()
        if not commands:
            return Fabric(job, looked, [], absent, at)
        confirm("\n".join(["", *commands]), (node.name for node in taking_part), job, yes=yes)
        directions = await survey(taking_part, looked, device=device, seconds=seconds, progress=status.say)
        return Fabric(job, looked, directions, absent, at)


def seen_ports(job: Job, looked: Mapping[str, Looked]) -> list[PortSeen]:
    """ibv_devinfo's ports, with the rate that sysfs tells of each."""
    rates = {
        (name, f"{port.facts.device}/{port.facts.port}"): port.facts.rate
        for name, node in job.nodes.items()
        for port in node.ports
    }
    return [
        PortSeen(
            node, f"{one.device}/{one.port}", one.state, one.max_mtu, one.active_mtu, one.sm_lid, one.link_layer,
            rates.get((node, f"{one.device}/{one.port}")),
        )
        for node, some in sorted(looked.items())
        for one in some.ports
    ]  # fmt: skip


def _unknown(fabric: Fabric) -> tuple[Unknown, ...]:
    """What was not possible, and why, the same reasons together."""
    whys: dict[str, set[str]] = {}
    for node, one in fabric.looked.items():
        for why in one.why:
            whys.setdefault(why, set()).add(node)
    for node, why in fabric.absent.items():
        whys.setdefault(why, set()).add(node)
    for direction in fabric.directions:
        for note in direction.notes:
            whys.setdefault(note, set()).update((direction.a, direction.b))
    return tuple(Unknown("infiniband", tuple(sorted(held)), why) for why, held in whys.items())


def _table(ports: Sequence[PortSeen], directions: Sequence[Direction], unknown: Sequence[Unknown]) -> Iterator[str]:
    if ports:
        yield f"{'port':<30}{'state':<14}{'link layer':<13}{'MTU':>6}{'of':>6}{'Gb/s':>7}"
    for port in ports:
        figures = f"{_dash(port.active_mtu):>6}{_dash(port.max_mtu):>6}{_dash(port.rate):>7}"
        yield f"{port.node + ':' + port.name:<30}{port.state:<14}{port.link_layer:<13}{figures}"
    if directions:
        yield f"\n{'direction':<34}{'Gb/s':>9}  by"
    for one in directions:
        speed = "–" if one.gbits is None else f"{one.gbits:.2f}"
        yield f"{one.a + ' → ' + one.b:<34}{speed:>9}  {one.tool}  {one.error}".rstrip()
        if one.ping is not None:
            sent, received, mean = one.ping
            yield f"{'':<34}ibping: {received} of {sent} came back, {_dash(mean)} ms"
        yield from (f"{'':<34}{number}. {hop}" for number, hop in enumerate(one.hops, 1))
    if unknown:
        yield "\nnot possible:"
    for reason in unknown:
        yield f"- {', '.join(reason.nodes)}: {reason.why}"


def _dash(value: float | None) -> str:
    return "–" if value is None else f"{value:g}"
