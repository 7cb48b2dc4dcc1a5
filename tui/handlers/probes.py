"""What can be measured or asked of nodes and job: each as an order, which says what it does before it is run."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from hangtop.diagnosis.node_names import folded_names
from hangtop.diagnosis.phrasing import listed, rank_text, size
from hangtop.session.state.changes import Change
from tui.handlers.ask import asks
from tui.looks.format import plural
from tui.looks.theme import Tone
from tui.order import Answer, Order, Refused, Say
from tui.texts.answers import answer_text, findings_text, plain, toned

if TYPE_CHECKING:
    from hangtop.session.asking.orders import WitnessOrder
    from tui.host import Host
    from tui.widgets.lines import Content

STARTING = {"gloo": 2.0, "nccl": 6.0}
"""Seconds until the processes of a backend have found one another."""
FLAME_SECONDS = 10.0
CAPTURE_SECONDS, CAPTURE_BYTES = 5.0, 16_000_000
SENDING_SECONDS = 2
BESIDE = "Runs beside the job."
PIPE = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE"
HOW_TO_ENABLE = (
    "nothing can be asked: start the job with TORCH_NCCL_DEBUG_INFO_PIPE_FILE=/tmp/fr_pipe_ and "
    "TORCH_FR_DUMP_TEMP_FILE=/tmp/fr_ ; dumps that lie on the nodes are fetched all the same"
)


def lint_environment(app: Host) -> None:
    """Show what is wrong with the settings of all ranks."""
    from hangtop.diagnosis.environment.lint import lint

    found = lint(app.session.job())
    told = findings_text(found) if found else plain(["nothing to object to in the settings of the ranks seen"])
    app.answer("Environment lint", told)


async def collectives(app: Host) -> Order:
    """Measure collectives between all nodes."""
    from collectors.probes.allreduce.run import describe
    from hangtop.session.asking.probing import plan_probe
    from hangtop.session.probed.answer import probe
    from hangtop.session.probed.lines import answer_lines

    plan = plan_probe(app.session.job(), python=app.session.options.python or "")
    what = f"{listed(plan.operations, 2)} to {size(max(plan.sizes)).replace('.0 ', ' ')}"
    seconds = STARTING[plan.backend] + 2 * plan.budget * len(plan.operations) * len(plan.sizes)
    brief = f"{plural(len(plan.nodes), 'node')}, {what}, about {5 * math.ceil(seconds / 5)} s, {plan.backend}"

    async def work(say: Say) -> Answer:
        answer = await probe(app.session, plan, say)
        report = answer.report
        title = f"Collective probe, {report.backend}, {report.world_size} ranks, {report.took:.1f} s"
        return Answer(title, answer_text(answer.outcome, answer.summary, toned(answer_lines(answer)), answer.findings))

    command = f"on {folded_names(node.name for node in plan.nodes)}: {describe(plan)}"
    return Order("Collective probe", f"{brief}, loads the network", command, work)


async def path(app: Host) -> Order:
    """Measure the path between all nodes."""
    from collectors.probes.path.survey import describe
    from hangtop.diagnosis.node_order import arrangement
    from hangtop.session.asking.paths import measure
    from hangtop.session.asking.probing import path_nodes
    from hangtop.session.probed.path_lines import path_lines

    job = app.session.job()
    taking_part, absent = path_nodes(app.session, job)
    nodes = plural(len(app.scene.nodes), "node")
    brief = f"{nodes}, MTU, loss and throughput between all of them, about 5 s, loads the network"

    async def work(say: Say) -> Answer:
        try:
            found = await measure(job, taking_part, absent, progress=say)
        except asyncio.CancelledError:  # by then nothing is left on the nodes
            return Answer("Path probe", answer_text("cancelled", "stopped on request", [], ()))
        title = f"Path probe, {found.report.world_size} nodes, {found.report.took:.1f} s"
        lines = toned(path_lines(found, arrangement(job, set(job.nodes))))
        return Answer(title, answer_text(found.outcome, found.summary, lines, found.findings))

    return Order("Path probe", brief, f"on every node: {describe()}", work)


async def recorders(app: Host) -> Order:
    """Ask the ranks for fresh dumps of their flight recorders."""
    living = [rank for rank in app.session.job().ranks if rank.gone_at is None]
    armed = [rank for rank in living if PIPE in rank.process.env]
    nodes = plural(len({rank.node for rank in armed}), "node")
    brief = f"{plural(len(armed), 'rank')} on {nodes}, one byte into the pipe of each, then the dumps are fetched"
    command = "\n".join(f"on {rank.node}: printf 1 > {rank.process.env[PIPE]}{rank.rank}.pipe" for rank in armed)
    if not armed:
        brief, command = "no rank can be asked for a dump; those that lie on the nodes are fetched", HOW_TO_ENABLE

    async def work(_: Say) -> Answer:
        dumps = await app.session.witnesses.recorders(fresh=True)
        came = sum(bool(dump.size) for dump in dumps)
        if came:
            text = f"flight recorder dumps of {plural(came, 'rank')}"
            app.head.state.changes.append(Change(app.head.now(), "", text, "dump"))
        content: Content = []
        for dump in sorted(dumps, key=lambda dump: dump.rank):
            got = f"{dump.size:,} bytes from {dump.path}" if dump.size else dump.why
            content.append([(f"{rank_text(dump.rank):<10}", Tone.STRONG), (f"{dump.node}  {got}", Tone.TEXT)])
        if dumps and not came and not armed:
            content += [[], *plain([HOW_TO_ENABLE], Tone.INFO)]
        return Answer("Flight recorder dumps; findings are made of them", content or plain(["no living rank"]))

    return Order("Flight recorder", f"{brief}; the job goes on", command, work)


async def flame_graph(app: Host) -> Order:
    """Sample the chosen ranks for some seconds, without pausing them."""
    from hangtop.session.asking.flames import record_flames

    ranks = app.panel.chosen_ranks()
    if not ranks:
        raise Refused("no rank here: mark ranks, or go to one")
    stop = asyncio.Event()

    async def work(say: Say) -> Answer:
        say(f"sampling {plural(len(ranks), 'rank')} for {FLAME_SECONDS:.0f} s, without pausing anything")
        graph = await record_flames(
            app.session, ranks, seconds=FLAME_SECONDS, folder=folder(app), name=stamped("flame"),
            on_progress=lambda _seconds, _nodes: None, stop=stop,
        )  # fmt: skip
        total = graph.tree.samples
        tree = [
            f"{frame.samples / total:>5.0%}  {'  ' * depth}{frame.name}"
            for depth, frame in graph.tree.walk()
            if frame.samples >= max(1, total // 50)
        ]
        errors = [f"{rank_text(rank)}: {why}" for rank, why in sorted(graph.errors.items())]
        head = [f"saved: {graph.saved.svg}", f"saved: {graph.saved.speedscope}", *errors, ""]
        return Answer(f"Flame graph, {total} samples", plain([*head, *tree]))

    return Order("Flame graph", "", "", work, stop=stop.set)


async def capture(app: Host) -> Order:
    """Capture packet headers of the job's network."""
    from collectors.probes.capture import run
    from hangtop.diagnosis.measured import captured
    from hangtop.session.asking.capturing import capture_nodes, lines, names_by_address, read

    places, absent = capture_nodes(app.session, app.session.job())
    if not places:
        raise Refused("nothing to capture on: " + "; ".join(f"{node}: {why}" for node, why in absent.items()))
    brief = (
        f"{plural(len(places), 'node')}, packet headers for {CAPTURE_SECONDS:g} s, "
        f"at most {CAPTURE_BYTES / 1e6:g} MB each, sends nothing"
    )

    async def work(say: Say) -> Answer:
        say(f"capturing for {CAPTURE_SECONDS:g} s")
        name = stamped("capture")
        found = await run.capture(places, folder(app), name, seconds=CAPTURE_SECONDS, most=CAPTURE_BYTES, sudo=True)
        traffic = await read(found, names_by_address(app.session.job()))
        told = plain(lines(found, traffic))
        return Answer("Packet capture", [*told, [], *findings_text(captured.findings(traffic, app.session.now()))])

    command = "\n".join(run.describe(places, CAPTURE_SECONDS, CAPTURE_BYTES, sudo=True))
    return Order("Capture packets", brief, command, work, BESIDE)


async def fabric(app: Host) -> Order:
    """Measure InfiniBand and RoCE with the nodes' own tools."""
    from collectors.probes.infiniband.survey import describe, look, survey
    from hangtop.session.asking.infiniband import FabricSurvey, judged, lines
    from hangtop.session.asking.probing import path_nodes

    job = app.session.job()
    nodes, absent = path_nodes(app.session, job)
    looked = await look(nodes)
    commands = describe(looked, "", SENDING_SECONDS)
    brief = f"{plural(len(nodes), 'node')}, every pair in both directions, {SENDING_SECONDS} s each, loads the fabric"

    async def work(say: Say) -> Answer:
        began = time.monotonic()
        directions = await survey(nodes, looked, seconds=SENDING_SECONDS, progress=say) if commands else []
        surveyed = FabricSurvey(job, looked, directions, absent, app.session.now())
        found = judged(surveyed, time.monotonic() - began)
        told = plain(lines(found.ports, directions, found.unknown))
        return Answer("InfiniBand", answer_text(found.outcome, found.summary, told, found.findings))

    return Order("Measure InfiniBand", brief, "\n".join(commands), work, BESIDE)


def _witness(make: Callable[[Host], WitnessOrder]) -> Callable[[Host], object]:
    """Make the handler of what NCCL itself tells when it is asked."""

    async def ordered(app: Host) -> Order:
        order = make(app)

        async def work(_: Say) -> Answer:
            return Answer(order.title, plain(await order.carry_out(app.session)))

        return Order(order.title, order.brief(), order.command(), work, order.risk())

    return asks(ordered)


def _counts(app: Host) -> WitnessOrder:
    from hangtop.session.asking.ras_status import status

    return status(app.session)


def _diagnostics(app: Host) -> WitnessOrder:
    from hangtop.session.asking.ras import diagnostics

    return diagnostics(app.session)


MEASUREMENTS: tuple[tuple[str, str, Callable[[Host], object]], ...] = (
    ("Capture packets of the job's network", "headers for 5 s with tcpdump; counts what was sent again", asks(capture)),
    ("Measure InfiniBand and RoCE", "ports, bandwidth of every pair, ibping and ibtracert, with the nodes' tools",
     asks(fabric)),
    ("Ask NCCL what each rank launched", "RAS's counts, where nobody asks for them unasked (NCCL 2.24 to 2.28)",
     _witness(_counts)),
    ("Ask NCCL for its diagnostics", "RAS compares GPUs, driver, ECC, NVLinks and settings (NCCL 2.31)",
     _witness(_diagnostics)),
)  # fmt: skip
"""Title, what it does, and its handler. To add a measurement, write its order and add its line."""


def open_measurements(app: Host) -> None:
    """List what else can be measured; each one asks."""
    from tui.dialogs.choosing import Choice, ChoiceDialog

    def take(place: int | None) -> None:
        if place is not None:
            MEASUREMENTS[place][2](app)

    choices = [Choice(title, does) for title, does, _ in MEASUREMENTS]
    app.push_screen(ChoiceDialog("What else can be measured", choices), take)


def folder(app: Host) -> Path:
    """Where files of answers go."""
    return app.options.report_folder or Path.cwd()


def stamped(name: str) -> str:
    """A name with the present time."""
    return time.strftime(f"{name}-%Y%m%d-%H%M%S")
