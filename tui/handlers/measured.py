"""The key for what else can be measured: a packet capture, the fabric. Each says what it does and asks."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tui.handlers.asked import findings_text
from tui.handlers.confirming import Work, confirmed
from tui.intent import Intent
from tui.looks.format import plural
from tui.looks.text import harmless
from tui.looks.theme import Tone

if TYPE_CHECKING:
    from hangtop.diagnosis.finding import Finding
    from tui.host import Host

CAPTURE_SECONDS = 5.0
CAPTURE_BYTES = 16_000_000
SENDING_SECONDS = 2

BESIDE = "Runs beside the job."


def open_measurements(app: Host) -> None:
    """List what else can be measured."""
    from tui.dialogs.choosing import Choice, ChoiceDialog
    from tui.handlers.witnesses import ASKED, BY_CONSENT

    choices = [
        Choice("Capture packets of the job's network", "headers for 5 s with tcpdump; counts what was sent again"),
        Choice(
            "Measure InfiniBand and RoCE", "ports, bandwidth of every pair, ibping and ibtracert, with the nodes' tools"
        ),
        *ASKED,
    ]
    works: tuple[Callable[[Host], Work], ...] = (_capture, _fabric, *BY_CONSENT)

    def take(place: int | None) -> None:
        if place is not None:
            app.run_worker(works[place](app), name="measure", exit_on_error=False)

    app.push_screen(ChoiceDialog("What else can be measured", choices), take)


def _show(app: Host, title: str, lines: Sequence[str], found: Sequence[Finding]) -> None:
    content = [[(harmless(line), Tone.TEXT)] for text in lines for line in (text.splitlines() or [""])]
    app.answer(title, [*content, [], *findings_text(found)])


async def _capture(app: Host) -> None:
    from collectors.probes.capture.run import describe
    from hangtop.session.asking.capturing import capture_nodes

    places, absent = capture_nodes(app.session, app.session.job())
    if not places:
        app.say("nothing to capture on: " + "; ".join(f"{node}: {why}" for node, why in absent.items()), "warning")
        return

    async def work() -> None:
        from collectors.probes.capture.run import capture
        from hangtop.diagnosis.measured import captured
        from hangtop.session.asking.capturing import lines, names_by_address, read

        folder = app.options.report_folder or Path.cwd()
        name = time.strftime("capture-%Y%m%d-%H%M%S")
        app.say(f"capturing for {CAPTURE_SECONDS:g} s")
        captures = await capture(places, folder, name, seconds=CAPTURE_SECONDS, most=CAPTURE_BYTES, sudo=True)
        traffic = await read(captures, names_by_address(app.session.job()))
        _show(app, "Packet capture", list(lines(captures, traffic)), captured.findings(traffic, app.session.now()))

    brief = (
        f"{plural(len(places), 'node')}, packet headers for {CAPTURE_SECONDS:g} s, "
        f"at most {CAPTURE_BYTES / 1e6:g} MB each, sends nothing"
    )
    commands = describe(places, CAPTURE_SECONDS, CAPTURE_BYTES, sudo=True)
    confirmed(app, "Capture packets", Intent(brief, "\n".join(commands)), BESIDE, work)


async def _fabric(app: Host) -> None:
    from collectors.probes.infiniband.survey import describe, look
    from hangtop.session.asking.infiniband import FabricSurvey, judged, lines
    from hangtop.session.asking.probing import path_nodes

    job = app.session.job()
    nodes, absent = path_nodes(app.session, job)
    looked = await look(nodes)
    commands = describe(looked, "", SENDING_SECONDS)

    async def work() -> None:
        from collectors.probes.infiniband.survey import survey

        began = time.monotonic()
        directions = await survey(nodes, looked, seconds=SENDING_SECONDS, progress=app.say) if commands else []
        fabric = FabricSurvey(job, looked, directions, absent, app.session.now())
        found = judged(fabric, time.monotonic() - began)
        shown = [f"{found.outcome}  {found.summary}", "", *lines(found.ports, directions, found.unknown)]
        _show(app, "InfiniBand", shown, found.findings)

    if commands:
        brief = (
            f"{plural(len(nodes), 'node')}, every pair in both directions, {SENDING_SECONDS} s each, loads the fabric"
        )
        confirmed(app, "Measure InfiniBand", Intent(brief, "\n".join(commands)), BESIDE, work)
    else:
        await work()
