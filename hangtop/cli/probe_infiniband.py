"""``hangtop probe infiniband NODE…``: the fabric, measured with the tools that the nodes have for it."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

import click

from collectors.probes.infiniband.survey import describe, look, survey
from hangtop.cli.answer import Answer
from hangtop.cli.common import connection_but, nodes
from hangtop.cli.connecting import connected_session
from hangtop.cli.consent import confirm, refuse_read_only
from hangtop.cli.layout import LaidOut
from hangtop.cli.probe_answer import answered
from hangtop.cli.running import interrupted_cleanly
from hangtop.cli.status import Status
from hangtop.diagnosis.finding import Verdict
from hangtop.session.asking.infiniband import FabricSurvey, judged, lines
from hangtop.session.asking.probing import NEEDED, path_nodes
from hangtop.session.commands import completed
from hangtop.session.options import SessionOptions


@click.command("infiniband", cls=LaidOut)
@nodes
@connection_but("interval", "patience", "logs", "py_spy", "sudo", "read_only")
@click.option(
    "--device", metavar="NAME", default="", help="Adapter to measure with (mlx5_0); else the first active one."
)
@click.option("--seconds", metavar="S", type=click.IntRange(1, 30), default=2, show_default=True,
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
    took = time.monotonic() - began
    found = judged(fabric, took)
    verdict = Verdict("healthy" if found.outcome == "ok" else "unknown", found.summary, found.findings, found.unknown)
    more: dict[str, Any] = {
        "backend": "infiniband", "ports": [asdict(port) for port in found.ports],
        "directions": [asdict(one) for one in fabric.directions],
    }  # fmt: skip
    verdict = completed(verdict, options, fabric.job.nodes)
    answered(ctx, Answer(verdict, fabric.job, took), found.outcome, figures=more,
             table=lines(found.ports, fabric.directions, found.unknown), json=json)  # fmt: skip


async def _probe(options: SessionOptions, device: str, seconds: int, yes: bool) -> FabricSurvey:
    status = Status()
    async with connected_session(options, status, NEEDED) as session:
        job = session.job()
        taking_part, absent = path_nodes(session, job)
        status.say("looking for adapters and tools")
        looked = await look(taking_part)
        status.clear()
        commands = describe(looked, device, seconds)
        at = time.time()
        if not commands:
            return FabricSurvey(job, looked, [], absent, at)
        confirm("\n".join(["", *commands]), (node.name for node in taking_part), job, yes=yes)
        directions = await survey(taking_part, looked, device=device, seconds=seconds, progress=status.say)
        return FabricSurvey(job, looked, directions, absent, at)
