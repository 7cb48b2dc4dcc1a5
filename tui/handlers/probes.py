"""Probes that keys start: each describes itself before it runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from hangtop.diagnosis.phrasing import count, folded_names, rank_text
from tui.handlers.ask import ActionRefused, asks, choose, run

if TYPE_CHECKING:
    from hangtop.session.probes import Probe, ProbeResult, Say
    from hangtop.session.probes.repair import Repairable, Signal
    from tui.app import HangtopApp

FLAME_SECONDS = 10.0
CAPTURE_SECONDS = 5.0
PIPE = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE"
HOW_TO_ENABLE = (
    "to ask ranks for dumps, start the job with TORCH_NCCL_DEBUG_INFO_PIPE_FILE=/tmp/fr_pipe_ and "
    "TORCH_FR_DUMP_TEMP_FILE=/tmp/fr_ ; existing dumps on the nodes are fetched anyway"
)


def _made_by(where: str) -> Callable[[HangtopApp], Any]:
    """The maker of a probe, ``module:function`` of ``hangtop.session.probes``, imported when it is first asked for."""
    module, _, name = where.partition(":")
    return lambda app: getattr(import_module(f"hangtop.session.probes.{module}"), name)(app.session)


collectives = _made_by("collectives:collectives_probe")
path = _made_by("pairs:path_probe")
fabric = _made_by("pairs:infiniband_probe")


def recorders(app: HangtopApp) -> Probe:
    """Ask the ranks for fresh dumps of their flight recorders."""
    from hangtop.session.probes import Probe, ProbeResult

    living = [rank for rank in app.session.job().ranks if rank.gone_at is None]
    armed = [rank for rank in living if PIPE in rank.process.env]
    brief = f"{count(len(armed), 'rank')}, one byte to the pipe of each, then the dumps are fetched; the job runs on"
    command = "\n".join(f"on {rank.node}: printf 1 > {rank.process.env[PIPE]}{rank.rank}.pipe" for rank in armed)
    if not armed:
        brief, command = "no rank can be asked for a dump; existing dumps on the nodes are fetched", HOW_TO_ENABLE

    async def ask(_: Say) -> ProbeResult:
        dumps = await app.session.job_sources.recorders(fresh=True)
        came = sum(bool(dump.size) for dump in dumps)
        summary = f"flight recorder dumps of {count(came, 'rank')}"
        if came:
            app.head.state.note(app.head.now(), summary, "dump")
        lines = (
            f"{rank_text(dump.rank):<10}{dump.node}  "
            f"{f'{dump.size:,} bytes from {dump.path}' if dump.size else dump.why}"
            for dump in sorted(dumps, key=lambda dump: dump.rank)
        )
        return ProbeResult("Flight recorder dumps", "ok" if came else "failed", summary, tuple(lines))

    return Probe("Flight recorder", brief, command, ask)


async def flame_graph(app: HangtopApp) -> None:
    """Sample the ranks under the cursor for some seconds, without pausing them and without a confirmation."""
    from hangtop.session.probes.flame import flame_probe

    ranks = set(app.panel.selection().ranks)
    if not ranks:
        raise ActionRefused("no rank under the cursor")
    probe = flame_probe(app.session, ranks, app.options.report_folder, seconds=FLAME_SECONDS)
    app.run_worker(run(app, probe), name=probe.title, exit_on_error=False)


def capture(app: HangtopApp) -> Probe:
    """Capture packet headers of the job's network."""
    from hangtop.session.probes.capture import capture_probe

    return capture_probe(app.session, app.options.report_folder, seconds=CAPTURE_SECONDS)


class Offer(NamedTuple):
    """An entry of a list of probes; each asks before it runs."""

    title: str
    detail: str
    make: Callable[[HangtopApp], Probe | Awaitable[Probe]]


MEASUREMENTS = (
    Offer("Capture packets of the job's network", "headers for 5 s with tcpdump, as files for Wireshark", capture),
    Offer("Measure InfiniBand and RoCE", "ports, bandwidth of every pair, ibping and ibtracert, with the nodes' tools",
          fabric),
)  # fmt: skip
"""To add a measurement, write its probe and add its line."""


def open_measurements(app: HangtopApp) -> None:
    """List more measurements."""
    _choose(app, "More measurements", MEASUREMENTS)


def open_repairs(app: HangtopApp) -> None:
    """List possible repairs: orphans of earlier runs and stopped ranks."""
    from hangtop.session.probes.repair import survey

    found = survey(app.session.job())
    notes = [f"unknown for {folded_names(unknown.nodes)}: {unknown.why}" for unknown in found.unknown]
    offers = [*_signals("End orphan", "TERM", found.orphans), *_signals("Continue stopped", "CONT", found.stopped)]
    if not offers:
        raise ActionRefused("; ".join(["no orphan and no stopped rank is seen", *notes]))
    _choose(app, "Possible repairs", offers, notes)


def _signals(what: str, signal: Signal, found: Sequence[Repairable]) -> list[Offer]:
    """Offers to signal all of these processes at once, then each."""
    from hangtop.session.probes.repair import signal_probe

    def offer_of(title: str, detail: str, processes: Sequence[Repairable]) -> Offer:
        return Offer(title, detail, lambda app: signal_probe(app.session, signal, processes))

    every = [offer_of(f"{what}: all {len(found)}", "", found)] if len(found) > 1 else []
    return [*every, *(offer_of(f"{what} {it.name}", f"{it.text}: {it.why}", [it]) for it in found)]


def _choose(app: HangtopApp, title: str, offers: Sequence[Offer], notes: Sequence[str] = ()) -> None:
    choices = [(offer.title, offer.detail) for offer in offers]
    choose(app, title, choices, lambda place: asks(offers[place].make)(app), notes)
