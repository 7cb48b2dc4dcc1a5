"""``hangtop probe collectives`` and ``trace``: what ranks reach together, and where their time goes."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import click

from collectors.probes.allreduce.plan import parse_sizes
from collectors.probes.allreduce.run import describe
from collectors.samples.traces import RankTrace
from hangtop.cli.answer import wants_colour
from hangtop.cli.node_command import NOT_WATCHING, NodeRun, Reply, finish, node_run
from hangtop.cli.options import SectionedCommand, connection
from hangtop.cli.probe_reply import LOADS, probe_command, probe_reply
from hangtop.cli.running import Status, interrupted_cleanly
from hangtop.diagnosis.job import Job
from hangtop.session.asking import traces
from hangtop.session.asking.probing import ProbeRefused, plan_probe
from hangtop.session.asking.traced import Part, Traced, as_json, lines, traced
from hangtop.session.options import SessionOptions
from hangtop.session.probed import answer as probed
from hangtop.session.probed.lines import answer_lines
from hangtop.session.probed.shades import plain

COLOURS: dict[Part, str] = {"compute": "green", "exposed": "red", "copy": "yellow", "data": "magenta", "idle": "blue"}
WIDTH = 118


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


@probe_command("collectives")
@click.option("--backend", type=click.Choice(["auto", "gloo", "nccl"]), default="auto", show_default=True,
              help="auto: nccl where every node has idle GPUs, else gloo.")  # fmt: skip
@click.option("--op", "operations", metavar="NAME", multiple=True,
              help="all_reduce (default), all_gather, reduce_scatter, broadcast, all_to_all, send_recv; "
              "repeatable.")  # fmt: skip
@click.option("--sizes", type=SizesParam(), default=(), help="Sizes to measure, doubling: 1M:1G.")
@click.option("--pairs", "bisect", type=click.Choice(["auto", "always", "never"]), default="auto", show_default=True,
              help="Pairs that tell a bad node from a bad link: all up to 8 nodes, neighbours and suspects above; "
              "always: all; never: none.")  # fmt: skip
@click.option("--ranks-per-node", metavar="N", type=click.IntRange(1, 64), default=1, show_default=True,
              help="Processes on each node with gloo; with nccl there is one a GPU.")  # fmt: skip
@click.option("--force", is_flag=True, help="Use nccl on GPUs that are in use.")
async def collectives(run: NodeRun, **wishes: Any) -> Reply:
    """Measure collectives between nodes, and name the node, link or rank that is slow, blocked or wrong.

    At least two nodes, or one with two GPUs. gloo proves path, interface and rendezvous and is safe beside a job; nccl
    proves GPUs and fabric and is refused on GPUs that are in use. Exit code: 0 ok, 1 slow or failed, 2 wrong usage, 3
    no node reachable.
    """
    began, job = time.monotonic(), run.session.job()
    try:
        plan = plan_probe(job, python=run.options.python or "", **wishes)
    except ProbeRefused as refused:
        raise click.UsageError(str(refused)) from None
    run.agree_beside_job(describe(plan), (node.name for node in plan.nodes), job, LOADS)
    found = await probed.probe(run.session, plan, run.status.say)
    return probe_reply(found.outcome, found.summary, found.findings, job=job, began=began,
                       figures=probed.as_json(found), table=plain(answer_lines(found, by_place=True)),
                       options=run.options)  # fmt: skip


@click.command("trace", cls=SectionedCommand)
@click.argument("words", metavar="[PATH | NODE]...", nargs=-1)
@click.option("--on-nodes", metavar="GLOB", multiple=True,
              help="Read these files or folders on the nodes that are named; only figures are sent.")  # fmt: skip
@click.option("--live", is_flag=True, help="Ask the running ranks for a trace, by dynolog.")
@click.option("--seconds", metavar="S", type=click.FloatRange(0.1, 60), default=2.0, show_default=True,
              help="With --live: how long to trace.")  # fmt: skip
@click.option("--yes", is_flag=True, help="With --live: do not ask before the ranks are traced.")
@click.option("--json", is_flag=True, help="Answer as JSON (docs/findings.md), with every rank and collective.")
@connection(hidden=NOT_WATCHING)
def trace(
    words: tuple[str, ...], on_nodes: tuple[str, ...], live: bool, seconds: float, options: SessionOptions, yes: bool,
    json: bool,
) -> None:  # fmt: skip
    """Read profiler traces (torch.profiler, Kineto; .json, .json.gz) and say who computes, communicates and waits.

    PATH is a file, a folder or a glob on this machine. With --on-nodes or --live the words are nodes. Exit code: 0 ok,
    1 slow or nothing to read, 2 wrong usage, 3 no node reachable.
    """
    began, there = time.monotonic(), replace(options, targets=words)
    if on_nodes and live:
        raise click.UsageError("--on-nodes reads traces that lie there, --live makes new ones: choose one")
    job = Job(now=time.time(), watched=0.0, live=False)
    if live:
        if options.read_only:
            raise click.UsageError("--read-only refuses tracing: it slows the ranks down")
        found, job = interrupted_cleanly(_trace_live(there, seconds, yes))
    elif on_nodes:
        found, job = interrupted_cleanly(_trace_there(there, on_nodes))
    elif words:
        found = _trace_here(words)
    else:
        raise click.UsageError("name traces: files, folders or globs; or nodes with --on-nodes GLOB or --live")
    answer = traced(found)
    finish(probe_reply(answer.outcome, answer.summary, answer.findings, job=job, began=began, figures=as_json(answer),
                       table=_trace_table(answer)), as_json=json)  # fmt: skip


def _trace_here(patterns: tuple[str, ...]) -> list[RankTrace]:
    status = Status()
    try:
        return traces.read_here(patterns, status.say)
    finally:
        status.clear()


async def _trace_there(options: SessionOptions, patterns: tuple[str, ...]) -> tuple[list[RankTrace], Job]:
    async with node_run(options, ("ranks",)) as run:
        job = run.session.job()
        return await traces.read_there(run.session, job, patterns, run.status.say), job


async def _trace_live(options: SessionOptions, seconds: float, yes: bool) -> tuple[list[RankTrace], Job]:
    async with node_run(options, ("ranks",), yes=yes) as run:
        job = run.session.job()
        asking = await traces.find_ways(run.session, job, seconds)
        run.status.clear()
        if not asking.possible:
            click.echo("\n".join((*asking.missing(), *traces.HOW_TO_ENABLE)), err=True)
            return asking.unread(), job
        commands = [f"on {node}: {shown}" for node, told in asking.commands().items() for shown in told]
        run.agree(f"The profiler slows these ranks down for {seconds:g} s. Go on?", *asking.missing(), *commands)
        run.status.say(f"tracing for {seconds:g} s, then the ranks write")
        return await traces.capture(run.session, asking), job


def _trace_table(answer: Traced) -> Iterator[str]:
    colour = wants_colour(sys.stdout)
    for line in lines(answer, WIDTH):
        yield "".join(_painted(text, part) if colour else text for text, part in line).rstrip()


def _painted(text: str, part: Part) -> str:
    if part in COLOURS:
        return click.style(text, fg=COLOURS[part])
    return click.style(text, bold=part == "strong", dim=part == "dim") if part != "text" else text
