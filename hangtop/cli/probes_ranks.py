"""``hangtop probe collectives`` and ``trace``: what ranks reach together, and where their time goes."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import click

from collectors.probes.allreduce.plan import parse_sizes
from hangtop.cli.node_command import NOT_WATCHING, NodeRun, Reply, finish, node_run
from hangtop.cli.options import SectionedCommand, connection
from hangtop.cli.probe_reply import probe_command, probe_reply, refused_usage, run_probe
from hangtop.cli.running import Status, interrupted_cleanly
from hangtop.diagnosis.job import Job
from hangtop.session.options import SessionOptions
from hangtop.session.probes import ProbeRefused
from hangtop.session.probes.collectives import collectives as collectives_probe
from hangtop.session.probes.traces import trace_ranks, traces_here, traces_there


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
    began = time.monotonic()
    try:
        probe = collectives_probe(run.session, **wishes)
    except ProbeRefused as refused:
        refused_usage(refused)
    return await run_probe(run, probe, began)


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
    there = replace(options, targets=words)
    if on_nodes and live:
        raise click.UsageError("--on-nodes reads traces that lie there, --live makes new ones: choose one")
    if live and options.read_only:
        raise click.UsageError("--read-only refuses tracing: it slows the ranks down")
    if not words:
        raise click.UsageError("name traces: files, folders or globs; or nodes with --on-nodes GLOB or --live")
    work = _on_nodes(there, on_nodes, seconds if live else None, yes) if on_nodes or live else _here(words)
    finish(interrupted_cleanly(work), as_json=json)


async def _here(patterns: tuple[str, ...]) -> Reply:
    began, status = time.monotonic(), Status()
    try:
        result = await traces_here(patterns).run(status.say)
    finally:
        status.clear()
    return probe_reply(result, Job(now=time.time(), watched=0.0, live=False), began)


async def _on_nodes(options: SessionOptions, patterns: tuple[str, ...], live: float | None, yes: bool) -> Reply:
    began = time.monotonic()
    async with node_run(options, ("ranks",), yes=yes) as run:
        try:
            probe = traces_there(run.session, patterns) if live is None else await trace_ranks(run.session, live)
        except ProbeRefused as refused:
            raise click.ClickException(str(refused)) from None
        return await run_probe(run, probe, began)
