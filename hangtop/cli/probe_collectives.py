"""``hangtop probe [collectives] NODE…``: measure the network and the GPUs between nodes, beside a job or before one."""

from __future__ import annotations

import time
from typing import Any

import click

from collectors.probes.allreduce.plan import parse_sizes
from collectors.probes.allreduce.run import describe
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
from hangtop.session.asking.probing import NEEDED, ProbeRefused, plan_probe
from hangtop.session.commands import completed
from hangtop.session.options import SessionOptions
from hangtop.session.probed.answer import Probed, as_json, probe
from hangtop.session.probed.lines import answer_lines
from hangtop.session.probed.shades import plain


class SizesParam(click.ParamType[tuple[int, ...]]):
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


@click.command("collectives", cls=LaidOut)
@nodes
@connection_but("interval", "patience", "logs", "py_spy", "sudo", "read_only")
@click.option("--backend", type=click.Choice(["auto", "gloo", "nccl"]), default="auto", show_default=True,
              help="auto: nccl where every node has idle GPUs, else gloo.")  # fmt: skip
@click.option("--op", "operations", metavar="NAME", multiple=True,
              help="all_reduce (default), all_gather, reduce_scatter, broadcast, all_to_all, send_recv; "
              "repeatable.")  # fmt: skip
@click.option("--sizes", type=SizesParam(), default=(), help="Sizes to measure, doubling: 1M:1G.")
@click.option("--pairs", type=click.Choice(["auto", "always", "never"]), default="auto", show_default=True,
              help="Pairs that tell a bad node from a bad link, then GPUs and ports of what is bad: all up to 8 nodes, "
              "neighbours and suspects above; always: all, and the ports of two nodes; never: none.")  # fmt: skip
@click.option("--ranks-per-node", metavar="N", type=click.IntRange(1, 64), default=1, show_default=True,
              help="Processes on each node with gloo; with nccl there is one a GPU.")  # fmt: skip
@click.option("--force", is_flag=True, help="Use nccl on GPUs that are in use.")
@click.option("--square", type=click.Choice(["place", "name"]), default="place", show_default=True,
              help="The square of pairs: nodes of one leaf together, where that is known, or by name.")  # fmt: skip
@click.option("--yes", is_flag=True, help="Do not ask before a probe beside a running job.")
@click.option("--json", is_flag=True, help="Answer as JSON (docs/findings.md).")
@click.pass_context
def command(
    ctx: click.Context, options: SessionOptions, backend: str, operations: tuple[str, ...], sizes: tuple[int, ...],
    pairs: str, ranks_per_node: int, force: bool, square: str, yes: bool, json: bool,
) -> None:  # fmt: skip
    """Measure collectives between nodes, and name the node, link or rank that is slow, blocked or wrong.

    At least two nodes, or one with two GPUs. gloo proves path, interface and rendezvous and is safe beside a job; nccl
    proves GPUs and fabric and is refused on GPUs that are in use. Exit code: 0 ok, 1 slow or failed, 2 wrong usage, 3
    no node reachable.
    """
    refuse_read_only(options)
    began = time.monotonic()
    wishes = {
        "backend": backend, "operations": operations, "sizes": sizes, "bisect": pairs, "force": force,
        "ranks_per_node": ranks_per_node,
    }  # fmt: skip
    found, job = interrupted_cleanly(_probe(options, wishes, yes))
    verdict = Verdict("healthy" if found.outcome == "ok" else "unknown", found.summary, found.findings)
    answer = Answer(completed(verdict, options, job.nodes), job, time.monotonic() - began)
    table = plain(answer_lines(found, by_place=square == "place"))
    answered(ctx, answer, found.outcome, figures=as_json(found), table=table, json=json)


async def _probe(options: SessionOptions, wishes: dict[str, Any], yes: bool) -> tuple[Probed, Job]:
    status = Status()
    async with connected_session(options, status, NEEDED) as session:
        job = session.job()
        try:
            plan = plan_probe(job, python=options.python or "", **wishes)
        except ProbeRefused as refused:
            raise click.UsageError(str(refused)) from None
        status.clear()
        confirm(describe(plan), (node.name for node in plan.nodes), job, yes=yes)
        return await probe(session, plan, status.say), job
