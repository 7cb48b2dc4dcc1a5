"""Every action, once: from this table come the keys, the footer, the help and the command palette."""

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
    """One thing that a key does."""

    id: str
    keys: str
    """As Textual writes them, several by commas."""
    title: str
    """Two or three words: footer and palette."""
    help: str
    """One sentence."""
    run: Run
    """Called with the application; may be a coroutine function."""
    group: str
    needs: str = ""
    """Capability that the panel must have (:attr:`tui.panels.base.Panel.CAN`); empty: valid everywhere."""
    footer: int = 0
    """Place in the footer, lowest first; 0 keeps it out."""
    reads: bool = False
    """Only reads on the nodes: allowed when read-only, impossible where there are no nodes."""
    changes: bool = False
    """Runs something on nodes or in the job; refused by ``--read-only``."""

    @property
    def binding(self) -> str:
        """What Textual calls it."""
        return f"do('{self.id}')"

    @property
    def asks(self) -> bool:
        """True when it needs nodes that answer."""
        return self.reads or self.changes

    def valid(self, can: frozenset[str]) -> bool:
        """True for a panel that can do this."""
        return not self.needs or self.needs in can


_MOVES: tuple[tuple[Move, str, str], ...] = (
    ("up", "up,k", "One line up"),
    ("down", "down,j", "One line down"),
    ("left", "left,h", "Cursor, columns or text to the left"),
    ("right", "right,l", "Cursor, columns or text to the right"),
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
    Action("enter", "enter", "In", "Go in: node, rank, its log; a finding's proof; a rank's full stack.",
           going.enter, "Moving", "enter", 1),
    Action("back", "escape", "Back", "Take the filter away, then go back to where you came from.",
           going.back, "Moving", "", 2),
    Action("details", "i", "Details", "Everything that is known of what is under the cursor.",
           going.show_details, "Moving", "details", 8),
    Action("filter", "slash", "Filter", "Show only what matches: rank=3,7-9  util<10  node=gpu0*  !state=S  word.",
           going.ask_filter, "Tables", "filter", 3),
    Action("sort.next", "greater_than_sign", "Sort", "Order by the next column.",
           on_table(lambda table: table.sort_next()), "Tables", "sort", 7),
    Action("sort.turn", "I", "Turn order", "Order the other way round.",
           on_table(lambda table: table.turn_order()), "Tables", "sort"),
    Action("copy", "c", "Copy", "Copy what is looked at: a row, a line, a proof, stacks (OSC 52).",
           going.copy, "hangtop", "", 11),
    Action("metric.next", "v", "Figure", "Next figure in the cells: utilisation, memory, power, temperature.",
           in_panel("next_metric"), "Overview", "metric", 4),
    Action("log.severity", "w", "Severity", "All lines; warnings and worse; errors alone.",
           in_panel("next_severity"), "Logs", "log", 5),
    Action("time.toggle", "space", "Pause", "Stand still at this moment, or go back to the newest, on every panel.",
           scrubbing.toggle, "Time", "", 12),
    Action("time.back", "comma", "Back in time", "Show an earlier moment, on every panel.",
           scrubbing.scrubs(-1), "Time"),
    Action("time.forth", "full_stop", "On in time", "Show a later moment, on every panel.",
           scrubbing.scrubs(1), "Time"),
    Action("time.closer", "left_square_bracket", "Less time", "Show half as much time or less, more closely.",
           scrubbing.zooms(-1), "Time"),
    Action("time.wider", "right_square_bracket", "More time", "Show more time, up to a day.",
           scrubbing.zooms(1), "Time"),
    Action("stacks.dump", "d", "Dump", "Look at the stacks of the ranks under the cursor.",
           stacks.dump(), "Job", "ranks", 4, reads=True),
    Action("stacks.all", "D", "Dump all", "Look at the stacks of all ranks, without pausing them.",
           stacks.dump(everybody=True), "Job", "", 5, reads=True),
    Action("stacks.flame", "f", "Flame graph", "Sample the ranks under the cursor for 10 s, without pausing them; SVG.",
           probes.flame_graph, "Job", "ranks", changes=True),
    Action("probe.collectives", "a", "Probe", "Measure collectives between all nodes; loads their network for seconds.",
           asks(probes.collectives), "Job", changes=True),
    Action("probe.path", "P", "Path", "Measure the path between all nodes: MTU, loss, throughput; loads their network.",
           asks(probes.path), "Job", changes=True),
    Action("recorder", "r", "Recorder", "Ask the ranks for flight recorder dumps; the job goes on.",
           asks(probes.recorders), "Job", "", 14, changes=True),
    Action("probe.more", "M", "Measure", "List what else can be measured: packets, InfiniBand; each one asks.",
           probes.open_measurements, "Job", changes=True),
    Action("repair", "K", "Repair", "List what can be mended: orphans of earlier runs, stopped ranks; each asks.",
           probes.open_repairs, "Job", changes=True),
    Action("results", "R", "Results", "Answers of probes, flame graphs and recorder, to be read again.",
           own.open_results, "Job", "", 13),
    Action("report", "x", "Report", "Write an incident report here: verdict, evidence, merged stacks, state.",
           own.write_report, "Job", "", 9),
    Action("again", "A", "Try again", "Connect to a lost node now; what was left unanswered is asked once more.",
           own.try_again, "Job", "again"),
    Action("palette", "colon,ctrl+p", "Commands", "Find any action, or a theme, by its name.",
           lambda app: app.main.open_palette(), "hangtop", "", 2),
    Action("help", "question_mark,f1", "Help", "All keys.", lambda app: app.main.open_help(), "hangtop", "", 2),
    Action("redraw", "ctrl+l", "Redraw", "Draw the whole screen anew.", lambda app: app.redraw_all(), "hangtop"),
    Action("quit", "q,ctrl+q,ctrl+c", "Quit", "Leave hangtop. Nothing stays on the nodes.",
           lambda app: app.exit(), "hangtop", "", 2),
)  # fmt: skip
"""To add a key, add its action."""

BY_ID = {action.id: action for action in ACTIONS}

_WORDS = {
    "escape": "Esc", "enter": "Enter", "space": "Space", "pageup": "PgUp", "pagedown": "PgDn", "home": "Home",
    "end": "End", "f1": "F1",
}  # fmt: skip
"""Keys that are words; of all others Textual knows the character."""


def shown_keys(keys: str) -> list[str]:
    """Keys as people read them, of Textual's words, several by commas: ``/``, ``^p``, ``Esc``."""
    return [_WORDS.get(key) or format_key(key).replace("ctrl+", "^") for key in keys.split(",")]


def bindings() -> list[Binding]:
    """Textual's bindings of all actions; those of the footer in its order.

    Of two with one key the more special one comes first: Textual runs the first that is valid.
    """
    order = sorted(ACTIONS, key=lambda action: (not action.needs, action.footer or 99))
    return [
        Binding(action.keys, action.binding, action.title, show=bool(action.footer), tooltip=action.help)
        for action in sorted(order, key=lambda action: action.footer or 99)
    ]
