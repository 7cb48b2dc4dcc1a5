"""``hangtop preflight NODE…``: what would stop a job on these nodes, red first, with what mends it."""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import Iterator
from dataclasses import replace

import click

from hangtop.cli.answer import Answer, as_json
from hangtop.cli.connecting import LOGIN_OPEN, is_logged_in
from hangtop.cli.node_command import NodeRun, Reply, node_command
from hangtop.cli.options import Converted
from hangtop.diagnosis.addresses import address_of, names_of
from hangtop.diagnosis.finding import Verdict
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.preflight.scene import CheckCell, Preflight
from hangtop.diagnosis.preflight.table import cells, findings
from hangtop.session.live import ssh_words
from hangtop.session.probes import nodes_of
from hangtop.session.session import Session

PATHS = ("/tmp", "/dev/shm")
MARKS = {"fail": ("✗", "red"), "warn": ("!", "yellow"), "unknown": ("?", "cyan"), "ok": ("✓", "green")}
NEEDS = ("ranks", "host", "software", "network", "gpus", "fabric", "topology")
"""Sources that the checks look at: one that has not spoken yet would make a cell wrong, not only empty."""
GPUS_WITHIN = 8.0
"""Seconds in which nvidia-smi must tell of the GPUs of a node, else they are unknown."""
STEP = 0.05
PORT = 29500
"""torchrun's own default."""


def _master(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon:
        return text, PORT
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"{text!r} is not HOST or HOST:PORT")
    return host, int(port)


@node_command("preflight", needs=NEEDS, node_needed=False)
@click.option("--master", type=Converted("HOST[:PORT]", _master),
              help="Where the ranks will meet; else the job's own, else the first node.")  # fmt: skip
async def command(run: NodeRun, master: tuple[str, int] | None) -> Reply:
    """Check nodes before a job, or beside one: what would stop it, and the command that mends it.

    Reads, listens on ports for a moment, and connects nodes with each other; changes nothing. Exit code: 0 nothing red,
    1 something is, 2 wrong usage, 3 no node reachable.
    """
    began = time.monotonic()
    scene = await preflight(run, master)
    table = cells(scene)
    red = [cell for cell in table if cell.state == "fail"]
    unknown = sum(cell.state == "unknown" for cell in table)
    summary = f"{len(red)} of {len(table)} checks failed" if red else f"{len(table)} checks, none failed"
    summary += f", {unknown} unknown" if unknown else ""
    verdict = Verdict("unknown" if red else "healthy", summary, findings(table))
    answer = Answer(verdict, scene.job, time.monotonic() - began)
    document = as_json(answer) | {"verdict": "failed" if red else "ok", "checks": [cell._asdict() for cell in table]}
    return Reply(document, matrix(table, summary), 3 if answer.exit_code == 3 else int(bool(red)))


async def preflight(run: NodeRun, master: tuple[str, int] | None) -> Preflight:
    """Survey the nodes, and put together what the checks look at."""
    from collectors.probes.preflight import survey

    session = run.session
    await _gpus_told(session)
    job = session.job()
    asked = [node for node in job.nodes.values() if node.link == "connecting"]
    held = {node.name: node.why.removeprefix(LOGIN_OPEN) for node in asked if is_logged_in(session, node.name)}
    scene = replace(_scene(job, master), by_hand=run.options.via or f"{shlex.join(ssh_words(run.options))} NODE true")
    answering = {node.name for node in scene.nodes()}
    places = [place for place in nodes_of(session, scene.job)[0] if place.name in answering]
    run.status.say(f"surveying {len(places)} nodes")
    found = await survey(
        places, master=scene.master[0], port=scene.master[1], master_node=scene.master_node, paths=PATHS
    )
    silent = held | {name: why.removeprefix(f"{name}: ") for name, why in found.errors.items()}
    return replace(scene, answers=found.answers, silent=silent)


async def _gpus_told(session: Session) -> None:
    """Wait for the first word of nvidia-smi wherever there is one, but not for long: it may take seconds."""
    end = time.monotonic() + GPUS_WITHIN
    while time.monotonic() < end:
        states = [(node, node.sources.get("gpus")) for node in session.state.nodes.values()]
        if not any(state is not None and state.state == "ok" and not node.gpus for node, state in states):
            return
        await asyncio.sleep(STEP)


def _scene(job: Job, master: tuple[str, int] | None) -> Preflight:
    """Find out where the ranks meet, and on which node that is."""
    ranks = [rank.process for rank in job.ranks if rank.process.master_addr]
    scene = Preflight(job)
    names = sorted(job.nodes)
    if master is None and ranks:
        master = ranks[0].master_addr, ranks[0].master_port or PORT
    if master is None and names:
        master = address_of(job, job.nodes[names[0]]), PORT
    host, port = master or ("", PORT)
    rank0 = next((rank.node for rank in job.ranks if rank.rank == 0), "")
    held = next((name for name in names if host in names_of(job.nodes[name])), "")
    node = held or rank0 or (names[0] if names else "")
    return replace(scene, master=(host, port), master_node=node)


def matrix(table: list[CheckCell], summary: str) -> Iterator[str]:
    """A matrix of nodes × checks, then every cell that is not green with what mends it."""
    checks = list(dict.fromkeys(cell.check for cell in sorted(table, key=lambda cell: cell.check)))
    names = sorted({cell.node for cell in table})
    state = {(cell.node, cell.check): cell.state for cell in table}
    width = max([4, *map(len, names)])
    yield " " * width + "  " + "  ".join(checks)
    for name in names:
        marks = []
        for check in checks:
            mark, colour = MARKS.get(state.get((name, check), ""), ("·", "white"))
            marks.append(click.style(mark.center(len(check)), fg=colour))
        yield f"{name:<{width}}  " + "  ".join(marks)
    yield f"\n{summary}"
    for cell in table:
        if cell.state != "ok":
            mark, colour = MARKS[cell.state]
            yield click.style(f"\n{mark} {cell.node}: {cell.check}", fg=colour, bold=True) + f"  {cell.figure}"
            if cell.remedy:
                yield f"    {cell.remedy}"
