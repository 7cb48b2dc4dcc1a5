"""``hangtop probe [collectives] NODE…``: measure the network and the GPUs between nodes, beside a job or before one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import click

from collectors.probes.allreduce.plan import parse_sizes
from collectors.probes.allreduce.run import cancelled
from collectors.probes.allreduce.workers import describe
from collectors.samples import ProbeReport
from hangtop.cli.answer import Answer
from hangtop.cli.common import connection, nodes
from hangtop.cli.connecting import connected_session
from hangtop.cli.consent import confirm, refuse_read_only
from hangtop.cli.probe_answer import answered
from hangtop.cli.running import interrupted_cleanly
from hangtop.cli.status import Status
from hangtop.diagnosis import probes
from hangtop.diagnosis.finding import Verdict
from hangtop.diagnosis.job import Job
from hangtop.session.options import SessionOptions
from hangtop.session.probing import ProbeRefused, allreduce_probe, plan_probe


class Sizes(click.ParamType[tuple[int, ...]]):
    """``1M:1G``, doubling, or one size."""

    name = "SIZE[:SIZE]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Read the sizes."""
        if isinstance(value, tuple):
            return value
        try:
            return parse_sizes(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.command("collectives")
@nodes
@connection
@click.option("--backend", type=click.Choice(["auto", "gloo", "nccl"]), default="auto", show_default=True)
@click.option("--op", "operations", multiple=True, help="all_reduce (default), all_gather, reduce_scatter, broadcast, "
              "all_to_all, send_recv; repeatable.")  # fmt: skip
@click.option("--sizes", type=Sizes(), default=(), help="Sizes to measure, doubling: 1M:1G.")
@click.option("--pairs", type=click.Choice(["auto", "always", "never"]), default="auto", show_default=True,
              help="Measure pairs of nodes too, to tell a bad node from a bad link.")  # fmt: skip
@click.option("--force", is_flag=True, help="Use nccl on GPUs that are in use.")
@click.option("--yes", is_flag=True, help="Do not ask before a probe beside a running job.")
@click.option("--json", is_flag=True, help="Answer as JSON (docs/findings.md).")
@click.pass_context
def command(
    ctx: click.Context, options: SessionOptions, backend: str, operations: tuple[str, ...], sizes: tuple[int, ...],
    pairs: str, force: bool, yes: bool, json: bool,
) -> None:  # fmt: skip
    """Measure collectives between nodes, and name the node, link or rank that is slow, blocked or wrong.

    gloo proves path, interface and rendezvous and is safe beside a job; nccl proves GPUs and fabric and is refused on
    GPUs that are in use. Exit code: 0 ok, 1 slow or failed, 2 wrong usage, 3 no node reachable.
    """
    refuse_read_only(options)
    began = time.monotonic()
    wishes = {"backend": backend, "operations": operations, "sizes": sizes, "bisect": pairs, "force": force}
    report, job = interrupted_cleanly(_probe(options, wishes, yes))
    found = probes.findings(report)
    outcome = probes.outcome(report, found)
    summary = found[0].summary if found else _summary(report)
    answer = Answer(Verdict("healthy" if outcome == "ok" else "unknown", summary, found), job, time.monotonic() - began)
    answered(ctx, answer, outcome, figures=_figures(report), table=_table(report), json=json)


async def _probe(options: SessionOptions, wishes: dict[str, Any], yes: bool) -> tuple[ProbeReport, Job]:
    status = Status()
    async with connected_session(options, status) as session:
        job = session.job()
        try:
            plan = plan_probe(job, python=options.python or "", **wishes)
        except ProbeRefused as refused:
            raise click.UsageError(str(refused)) from None
        status.clear()
        confirm(describe(plan), (node.name for node in plan.nodes), job, yes=yes)
        probe = allreduce_probe(session, plan, status.say)
        at, began = time.time(), time.monotonic()
        try:
            return await probe.run(), job
        except asyncio.CancelledError:
            return cancelled(plan, at, time.monotonic() - began), job


def _summary(report: ProbeReport) -> str:
    if report.outcome != "done":
        return report.why
    best = max(report.figures, key=lambda figure: figure.busbw, default=None)
    speed = f"; {best.op} reaches {best.busbw:.3g} GB/s (busbw)" if best else ""
    return f"{report.world_size} ranks met over {report.backend}{speed}"


def _figures(report: ProbeReport) -> dict[str, Any]:
    wrong = {rank for figure in report.figures for rank in figure.wrong_ranks}
    return {
        "backend": report.backend,
        "world_size": report.world_size,
        "results": [
            {
                "op": figure.op, "bytes": figure.size, "time_us": round(figure.seconds * 1e6, 1),
                "algbw_GBps": figure.algbw, "busbw_GBps": figure.busbw, "correct": not figure.wrong_ranks,
            }
            for figure in report.figures
        ],
        "pairs": [
            {
                "a": pair.a, "b": pair.b, "busbw_GBps": pair.busbw,
                "rtt_us": None if pair.round_trip is None else round(pair.round_trip * 1e6, 1), "error": pair.error,
            }
            for pair in report.pairs
        ],
        "ranks": [
            {"rank": rank.rank, "node": rank.node, "state": rank.state, "why": rank.why,
             "late_over_median": rank.late_over_median, "correct": rank.rank not in wrong}
            for rank in report.ranks
        ],
    }  # fmt: skip


def _table(report: ProbeReport) -> Iterator[str]:
    if report.figures:
        yield f"{'op':<15}{'bytes':>12}{'time':>12}{'algbw GB/s':>12}{'busbw GB/s':>12}  values"
    for figure in report.figures:
        values = "right" if not figure.wrong_ranks else f"wrong on rank {', '.join(map(str, figure.wrong_ranks))}"
        yield (
            f"{figure.op:<15}{figure.size:>12}{figure.seconds * 1e6:>9.0f} µs"
            f"{figure.algbw:>12.3f}{figure.busbw:>12.3f}  {values}"
        )
    if report.pairs:
        yield f"\n{'pair':<33}{'busbw GB/s':>12}{'round trip':>14}"
    for pair in report.pairs:
        speed = "–" if pair.busbw is None else f"{pair.busbw:.3f}"
        trip = "–" if pair.round_trip is None else f"{pair.round_trip * 1e6:.0f} µs"
        yield f"{pair.a + ' - ' + pair.b:<33}{speed:>12}{trip:>14}  {pair.error}"
