"""Preflight as a probe: what would break a job on these nodes, as a matrix of nodes and checks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from collectors.probes.preflight import survey
from hangtop.diagnosis.addresses import address_of, names_of
from hangtop.diagnosis.finding import Unknown
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import count
from hangtop.diagnosis.preflight import CheckCell, Preflight
from hangtop.diagnosis.preflight_table import cells, findings
from hangtop.session.probes import Probe, ProbeResult, Say, nodes_of, table
from hangtop.session.session import Session

NEEDED = ("ranks", "host", "software", "network", "gpus", "fabric", "topology")
"""Sources that the checks need: a source that has not reported yet would make a cell wrong, not only empty."""
MARKS = {"fail": "✗", "warn": "!", "unknown": "?", "ok": "✓", "": "·"}
PORT = 29500
"""torchrun's own default."""


def preflight_probe(session: Session, master: tuple[str, int] | None = None) -> Probe:
    """Check all nodes. It only reads, listens briefly on ports and connects nodes to each other: no confirmation."""

    async def run(say: Say) -> ProbeResult:
        scene = _scene(session.job(), master)
        answering = {node.name for node in scene.nodes()}
        places = [place for place in nodes_of(session, scene.job)[0] if place.name in answering]
        say(f"surveying {count(len(places), 'node')}")
        host, port = scene.master
        found = await survey(places, master=host, port=port, master_node=scene.master_node)
        silent = {name: why.removeprefix(f"{name}: ") for name, why in found.errors.items()}
        return result(cells(replace(scene, answers=found.answers, silent=silent)))

    return Probe("Preflight", "", "", run)


def _scene(job: Job, master: tuple[str, int] | None) -> Preflight:
    """The input of the checks, with the rendezvous address (MASTER_ADDR) and its node."""
    ranks = [rank.process for rank in job.ranks if rank.process.master_addr]
    names = sorted(job.nodes)
    if master is None and ranks:
        master = ranks[0].master_addr, ranks[0].master_port or PORT
    if master is None and names:
        master = address_of(job, job.nodes[names[0]]), PORT
    host, port = master or ("", PORT)
    rank0 = next((rank.node for rank in job.ranks if rank.rank == 0), "")
    held = next((name for name in names if host in names_of(job.nodes[name])), "")
    return Preflight(job, master=(host, port), master_node=held or rank0 or (names[0] if names else ""))


def result(found: Sequence[CheckCell]) -> ProbeResult:
    """The result: the matrix, and findings with their remedies."""
    red = sum(cell.state == "fail" for cell in found)
    silent = [cell for cell in found if cell.state == "unknown"]
    summary = f"{red} of {len(found)} checks failed" if red else f"{len(found)} checks, none failed"
    summary += f", {len(silent)} unknown" if silent else ""
    unknown = tuple(Unknown(cell.check, (cell.node,), cell.figure) for cell in silent)
    figures = {"checks": [cell._asdict() for cell in found]}
    lines = tuple(_matrix(found))
    return ProbeResult("Preflight", "failed" if red else "ok", summary, lines, figures, findings(found), unknown)


def _matrix(found: Sequence[CheckCell]) -> Iterator[str]:
    checks, names = sorted({cell.check for cell in found}), sorted({cell.node for cell in found})
    state = {(cell.node, cell.check): cell.state for cell in reversed(found)}  # the worst of a node comes first
    rows = [(name, *(MARKS[state.get((name, check), "")] for check in checks), "") for name in names]
    return table(("node", *checks, ""), rows)
