"""The table of actions, from which key bindings, footer, help and command palette are made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.binding import Binding
from textual.keys import format_key

from tui.handlers import going, own, probes, scrubbing, stacks
from tui.handlers.ask import asks
from tui.handlers.going import in_panel, on_table
from tui.panels.registry import PANELS
from tui.widgets.lines import Move

if TYPE_CHECKING:
    from tui.app import HangtopApp

Run = Callable[["HangtopApp"], object]


@dataclass(frozen=True, slots=True)
class Action:
    """What one key does."""

    id: str
    keys: str
    """Textual's names of the keys, comma-separated."""
    title: str
    """Two or three words, for the footer and the palette."""
    help: str
    """One sentence."""
    run: Run
    """Takes the application; may be a coroutine function."""
    group: str
    needs: str = ""
    """Capability that the panel must have (:attr:`tui.panels.base.Panel.CAN`); empty: valid on every panel."""
    footer: int = 0
    """Position in the footer, lowest first; 0: not in the footer."""
    reads: bool = False
    """Only reads on the nodes: allowed with ``--read-only``, impossible without live nodes."""
    changes: bool = False
    """Runs something on the nodes or in the job; refused by ``--read-only``."""

    @property
    def binding(self) -> str:
        """Textual's action string."""
        return f"do('{self.id}')"

    @property
    def asks(self) -> bool:
        """True if the action needs connected nodes."""
        return self.reads or self.changes

    def valid(self, can: frozenset[str]) -> bool:
        """True for a panel with these capabilities."""
        return not self.needs or self.needs in can


_MOVES: tuple[tuple[Move, str, str], ...] = (
    ("up", "up,k", "One line up"),
    ("down", "down,j", "One line down"),
    ("left", "left,h", "Move the cursor, columns or text to the left"),
    ("right", "right,l", "Move the cursor, columns or text to the right"),
    ("page_up", "pageup,ctrl+b", "One page up"),
    ("page_down", "pagedown,ctrl+f", "One page down"),
    ("first", "home,g", "To the first line"),
    ("last", "end,G", "To the last line; in logs, follow again"),
)

ACTIONS: tuple[Action, ...] = (
    *(
        Action(f"panel.{entry.name}", str(number), entry.title, f"{entry.help}.", going.opens(entry.name), "Panels")
        for number, entry in enumerate(PANELS, 1)
    ),
    *(Action(f"move.{how}", keys, text, f"{text}.", in_panel("move", how), "Moving") for how, keys, text in _MOVES),
    Action("enter", "enter", "In", "Open the item under the cursor: ranks of a node, log of a rank, evidence, stacks.",
           going.enter, "Moving", "enter", 1),
    Action("back", "escape", "Back", "Clear the filter, else go back to the previous panel.",
           going.back, "Moving", "", 2),
    Action("details", "i", "Details", "Show everything that is known about the item under the cursor.",
           going.show_details, "Moving", "details", 8),
    Action("filter", "slash", "Filter", "Show only matching rows: rank=3,7-9  util<10  node=gpu0*  !state=S  word.",
           going.ask_filter, "Tables", "filter", 3),
    Action("sort.next", "greater_than_sign", "Sort", "Sort by the next column.",
           on_table(lambda table: table.sort_next()), "Tables", "sort", 7),
    Action("sort.turn", "I", "Reverse order", "Reverse the sort order.",
           on_table(lambda table: table.turn_order()), "Tables", "sort"),
    Action("copy", "c", "Copy", "Copy what is under the cursor: a row, a line, evidence, stacks (OSC 52).",
           going.copy, "hangtop", "", 11),
    Action("metric.next", "v", "Figure", "Show the next figure in the cells: utilisation, memory, power, temperature.",
           in_panel("next_metric"), "Overview", "metric", 4),
    Action("log.severity", "w", "Severity", "Show all lines, then warnings and errors, then only errors.",
           in_panel("next_severity"), "Logs", "log", 5),
    Action("time.toggle", "space", "Pause", "Pause at this moment, or return to the newest, on every panel.",
           scrubbing.toggle, "Time", "", 12),
    Action("time.back", "comma", "Back in time", "Show an earlier moment, on every panel.",
           scrubbing.scrubs(-1), "Time"),
    Action("time.forth", "full_stop", "Forward in time", "Show a later moment, on every panel.",
           scrubbing.scrubs(1), "Time"),
    Action("time.closer", "left_square_bracket", "Less time", "Zoom in: show less time.",
           scrubbing.zooms(-1), "Time"),
    Action("time.wider", "right_square_bracket", "More time", "Zoom out: show more time, up to a day.",
           scrubbing.zooms(1), "Time"),
    Action("stacks.dump", "d", "Dump", "Take the stacks of the ranks under the cursor.",
           stacks.dump(), "Job", "ranks", 4, reads=True),
    Action("stacks.all", "D", "Dump all", "Take the stacks of all ranks; a torn read pauses one briefly.",
           stacks.dump(everybody=True), "Job", "", 5, reads=True),
    Action("stacks.flame", "f", "Flame graph", "Sample the ranks under the cursor for 10 s, without pausing them; SVG.",
           probes.flame_graph, "Job", "ranks", changes=True),
    Action("probe.collectives", "a", "Probe", "Measure collectives between all nodes; loads their network for seconds.",
           asks(probes.collectives), "Job", changes=True),
    Action("probe.path", "P", "Path", "Measure the path between all nodes: MTU, loss, throughput; loads their network.",
           asks(probes.path), "Job", changes=True),
    Action("recorder", "r", "Recorder", "Ask the ranks for flight recorder dumps; the job keeps running.",
           asks(probes.recorders), "Job", "", 14, changes=True),
    Action("probe.more", "M", "Measure", "List more measurements: packets, InfiniBand; each asks before it runs.",
           probes.open_measurements, "Job", changes=True),
    Action("repair", "K", "Repair", "List possible repairs: orphans of earlier runs, stopped ranks; each asks first.",
           probes.open_repairs, "Job", changes=True),
    Action("results", "R", "Results", "Show again the answers of probes, flame graphs and recorder.",
           own.open_results, "Job", "", 13),
    Action("report", "x", "Report", "Write an incident report here: verdict, evidence, merged stacks, state.",
           own.write_report, "Job", "", 9),
    Action("again", "A", "Try again", "Connect to a lost node now, and repeat an unanswered host key question.",
           own.try_again, "Job", "again"),
    Action("palette", "colon,ctrl+p", "Commands", "Find an action or a theme by its name.",
           lambda app: app.main.open_palette(), "hangtop", "", 2),
    Action("help", "question_mark,f1", "Help", "Show all keys.", lambda app: app.main.open_help(), "hangtop", "", 2),
    Action("redraw", "ctrl+l", "Redraw", "Redraw the whole screen.", lambda app: app.redraw_all(), "hangtop"),
    Action("quit", "q,ctrl+q,ctrl+c", "Quit", "Leave hangtop. Nothing stays on the nodes.",
           lambda app: app.exit(), "hangtop", "", 2),
)  # fmt: skip
"""To add a key, add its action."""

BY_ID = {action.id: action for action in ACTIONS}

_WORDS = {
    "escape": "Esc", "enter": "Enter", "space": "Space", "pageup": "PgUp", "pagedown": "PgDn", "home": "Home",
    "end": "End", "f1": "F1",
}  # fmt: skip
"""Names of keys that Textual's ``format_key`` does not shorten."""


def shown_keys(keys: str) -> list[str]:
    """Display names of comma-separated keys: ``/``, ``^p``, ``Esc``."""
    return [_WORDS.get(key) or format_key(key).replace("ctrl+", "^") for key in keys.split(",")]


def bindings() -> list[Binding]:
    """Textual's bindings of all actions, in the order of the footer.

    If two actions share a key, the one that needs a capability comes first: Textual runs the first valid one.
    """
    return [
        Binding(action.keys, action.binding, action.title, show=bool(action.footer), tooltip=action.help)
        for action in sorted(ACTIONS, key=lambda action: (action.footer or 99, not action.needs))
    ]
