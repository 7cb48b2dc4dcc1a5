"""``hangtop probe capture NODE…``: packets of the job's network, brought here as pcap, and what was sent again."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from collectors.probes.capture.run import Captured, capture, describe
from hangtop.cli.answer import Answer
from hangtop.cli.common import connection_but, nodes
from hangtop.cli.connecting import connected_session
from hangtop.cli.consent import confirm, refuse_read_only
from hangtop.cli.layout import LaidOut
from hangtop.cli.probe_answer import answered
from hangtop.cli.running import interrupted_cleanly
from hangtop.cli.status import Status
from hangtop.diagnosis.finding import Verdict
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.measured import captured
from hangtop.diagnosis.measured.captured import CapturedTraffic
from hangtop.diagnosis.phrasing import count
from hangtop.session.asking.capturing import capture_nodes, lines, names_by_address, read
from hangtop.session.asking.probing import NEEDED
from hangtop.session.options import SessionOptions

EFFECT = "The headers of their packets are copied and sent here meanwhile."


@click.command("capture", cls=LaidOut)
@nodes
@connection_but("interval", "patience", "logs", "py_spy", "read_only")
@click.option(
    "--seconds", metavar="S", type=click.FloatRange(0.1, 600), default=5.0, show_default=True, help="How long."
)
@click.option("--max-mb", "most", metavar="MB", type=click.IntRange(1, 4096), default=16, show_default=True,
              help="Most megabytes of one node's capture.")  # fmt: skip
@click.option(
    "--out", "folder", metavar="DIR", type=click.Path(file_okay=False), default=".", help="Folder for the pcap files."
)
@click.option("--yes", is_flag=True, help="Do not ask before a capture beside a running job.")
@click.option("--json", is_flag=True, help="Answer as JSON (docs/findings.md).")
@click.pass_context
def command(
    ctx: click.Context, options: SessionOptions, seconds: float, most: int, folder: str, yes: bool, json: bool
) -> None:
    """Capture the TCP headers of the job's network with tcpdump, and count what was sent again.

    Needs tcpdump on the nodes, and root there, or --sudo. Nothing is written on the nodes. Exit code: 0 ok, 1 loss or
    no capture, 2 wrong usage, 3 no node reachable.
    """
    refuse_read_only(options, "captures: they run tcpdump on the nodes")
    began = time.monotonic()
    captures, traffic, job = interrupted_cleanly(_capture(options, seconds, most * 1_000_000, Path(folder), yes))
    found = tuple(captured.findings(traffic, time.time()))
    failed = [one for one in captures if one.path is None]
    outcome = "failed" if failed else "slow" if found else "ok"
    summary = found[0].summary if found else _summary(captures, failed)
    answer = Answer(Verdict("healthy" if outcome == "ok" else "unknown", summary, found), job, time.monotonic() - began)
    more: dict[str, Any] = {
        "backend": "tcpdump", "captures": [_row(one) for one in captures],
        "traffic": [asdict(one) | {"share": one.share} for one in traffic],
    }  # fmt: skip
    answered(ctx, answer, outcome, figures=more, table=lines(captures, traffic), json=json)


async def _capture(
    options: SessionOptions, seconds: float, most: int, folder: Path, yes: bool
) -> tuple[list[Captured], list[CapturedTraffic], Job]:
    status = Status()
    async with connected_session(options, status, NEEDED) as session:
        job = session.job()
        places, absent = capture_nodes(session, job)
        status.clear()
        *commands, how = describe(places, seconds, most, sudo=options.sudo)
        confirm("\n".join(["", *commands, how]), (node.name for node in places), job, yes=yes, effect=EFFECT)
        status.say(f"capturing on {count(len(places), 'node')} for {seconds:g} s")
        name = time.strftime("capture-%Y%m%d-%H%M%S")
        try:
            captures = await capture(places, folder, name, seconds=seconds, most=most, sudo=options.sudo)
        except OSError as error:
            raise click.ClickException(f"{folder}: the capture cannot be written: {error.strerror or error}") from None
        captures += [Captured(node, None, 0, None, None, why) for node, why in absent.items()]
        status.say("reading what came")
        return captures, await read(captures, names_by_address(job)), job


def _summary(captures: Sequence[Captured], failed: Sequence[Captured]) -> str:
    if failed:
        return f"no capture on {', '.join(one.node for one in failed)}: {failed[0].why}"
    return f"{count(len(captures), 'capture')}, no direction with noticeable loss"


def _row(one: Captured) -> dict[str, Any]:
    return {
        "node": one.node, "file": str(one.path) if one.path else None, "bytes": one.size, "packets": one.packets,
        "dropped_by_kernel": one.dropped, "why": one.why,
    }  # fmt: skip
