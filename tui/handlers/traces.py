"""Profiler traces: where they are is asked for, then each rank's time as a bar, collectives, findings."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from tui.handlers.ask import offer, probe_order
from tui.looks.theme import Tone
from tui.order import Answer, Order, Say
from tui.texts.answers import plain
from tui.widgets.lines import Content

if TYPE_CHECKING:
    from tui.host import Host

SECONDS = 2.0
"""For which ranks are traced."""
MOST, MARGIN = 144, 10
"""Cells of text in a dialog at its widest; cells of the screen that it leaves."""
HERE = "here:"
QUESTION: Content = [
    [("Files, folders or globs on the nodes: /tmp/traces  /scratch/run7/*.json.gz", Tone.DIM)],
    [(f"On this machine, after {HERE}  {HERE}~/traces", Tone.DIM)],
    [("Only their figures are sent; a trace of any size is read in bounded memory.", Tone.DIM)],
]


def ask_traces(app: Host) -> None:
    """Ask where the traces are, then read them in view."""
    from tui.dialogs.asking import LineDialog

    def take(said: str | None) -> None:
        if said and said.strip():
            _read(app, said.strip())

    app.push_screen(LineDialog("Profiler traces", QUESTION), take)


def _read(app: Host, said: str) -> None:
    from hangtop.session.probes.traces import traces_here, traces_there

    try:
        patterns = shlex.split(said.removeprefix(HERE))
    except ValueError as error:
        app.say(f"{said}: {error}", "warning")
        return
    if said.startswith(HERE):
        probe = traces_here(patterns, app.session, _width(app))
    else:
        probe = traces_there(app.session, patterns, _width(app))
    offer(app, probe_order(probe))


async def trace_ranks(app: Host) -> Order:
    """Have dynolog trace the ranks that were started for it."""
    from hangtop.session.probes import ProbeRefused, traces

    try:
        return probe_order(await traces.trace_ranks(app.session, SECONDS, _width(app)))
    except ProbeRefused as refused:
        answer = Answer("No rank can be asked for a trace", plain(str(refused).splitlines()))

    async def told(_: Say) -> Answer:
        return answer

    return Order("Trace the ranks", "", "", told, quiet=True)


def _width(app: Host) -> int:
    return max(40, min(MOST, app.size.width - MARGIN))
