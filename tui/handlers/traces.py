"""Profiler traces: where they are is asked for, then each rank's time as a bar, collectives, findings."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from tui.handlers.ask import offer, probe_order
from tui.looks.theme import Tone
from tui.widgets.lines import Content

if TYPE_CHECKING:
    from tui.host import Host

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
    from hangtop.session.probes.traces import traces_here, traces_on_nodes

    try:
        patterns = shlex.split(said.removeprefix(HERE))
    except ValueError as error:
        app.say(f"{said}: {error}", "warning")
        return
    if said.startswith(HERE):
        probe = traces_here(patterns, app.session, _width(app))
    else:
        probe = traces_on_nodes(app.session, patterns, _width(app))
    offer(app, probe_order(probe))


def _width(app: Host) -> int:
    return max(40, min(MOST, app.size.width - MARGIN))
