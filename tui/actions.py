"""Every action, once: from this table come the keys, the footer, the help, the command palette and the remapping.

An action's ``id`` is what a configuration file remaps (``[keys]``, ``"stacks.dump" = "ctrl+d"``). What an action does
to nodes and job is said in ``touch``, and that alone decides whether it asks first and whether ``--read-only`` refuses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from textual.binding import Binding

from tui.handlers import going, own, probes, repairs, scrubbing, stacks, tables
from tui.handlers.ask import asks
from tui.handlers.tables import on_table
from tui.panels.registry import PANELS
from tui.widgets.lines import Move

if TYPE_CHECKING:
    from tui.app import HangtopApp

Run = Callable[["HangtopApp"], object]


class Touch(Enum):
    """What an action reaches."""

    NOTHING = "nothing"
    NODE = "node"
    """Runs something on a node that does not hold up the job; refused by ``--read-only``."""
    JOB = "job"
    """May hold up or change the job: what it does is said and confirmed first; refused by ``--read-only``."""


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
    touch: Touch = Touch.NOTHING
    looks: bool = False
    """Only reads on the nodes: allowed when read-only, impossible where there are no nodes."""

    everywhere: bool = False
    """Its key is alive where the panel lacks what it needs, too: there it says why not."""
    over: bool = False
    """Its key is alive over a dialog, too."""

    @property
    def binding(self) -> str:
        """What Textual calls it."""
        return f"do('{self.id}')"

    @property
    def asks(self) -> bool:
        """True when it needs nodes that answer."""
        return self.looks or self.touch is not Touch.NOTHING

    def valid(self, can: frozenset[str]) -> bool:
        """True for a panel that can do this."""
        return not self.needs or self.needs in can


_MOVES: tuple[tuple[Move, str, str], ...] = (
    ("up", "up,k", "One line up"),
    ("down", "down,j", "One line down"),
    ("left", "left,h", "Columns or text to the left"),
    ("right", "right,l", "Columns or text to the right"),
    ("page_up", "pageup,ctrl+b", "One page up"),
    ("page_down", "pagedown,ctrl+f", "One page down"),
    ("first", "home,g", "To the first line"),
    ("last", "end,G", "To the last line; in logs, follow again"),
)

PANEL_ACTIONS = tuple(
    Action(f"panel.{entry.name}", str(number), entry.title, f"{entry.help}.", going.opens(entry.name), "Panels")
    for number, entry in enumerate(PANELS, 1)
)
MOVE_ACTIONS = tuple(
    Action(f"move.{how}", keys, text, f"{text}.", going.moves(how), "Moving") for how, keys, text in _MOVES
)

ACTIONS: tuple[Action, ...] = (
    *PANEL_ACTIONS,
    Action("panel.next", "tab", "Next panel", "Open the panel to the right.", going.opens_beside(1), "Panels"),
    Action("panel.previous", "shift+tab", "Panel before", "Open the panel to the left.",
           going.opens_beside(-1), "Panels"),
    Action("overview.back", "left", "Back in time", "Show an earlier moment; every panel does.",
           scrubbing.scrubs(-1), "Time", "time"),
    Action("overview.forth", "right", "On in time", "Show a later moment.", scrubbing.scrubs(1), "Time", "time"),
    Action("overview.graph", "g", "Who waits", "Who waits for whom: arrows go from one to another, Enter opens.",
           going.show_waits, "Overview", "graph", 5),
    Action("overview.happened", "H", "Happened", "What happened, line by line; Enter shows the moment of one.",
           going.show_happened, "Overview", "graph", 5),
    *MOVE_ACTIONS,
    Action("enter", "enter", "In", "Go in: node, rank, its log; a finding's proof; a rank's full stack.",
           going.enter, "Moving", "enter", 1),
    Action("back", "escape", "Back", "Take the filter away, then go back to where you came from.",
           going.back, "Moving", "", 2),
    Action("details", "i", "Details", "Everything that is known of what is under the cursor.",
           going.show_details, "Moving", "details", 8),
    Action("filter", "slash", "Filter", "Show only what matches: rank=3,7-9  util<10  node~gpu0  !state=S  word.",
           tables.ask_filter, "Tables", "filter", 3, everywhere=True),
    Action("sort.next", "greater_than_sign", "Sort", "Order by the next column.",
           on_table(lambda table: table.sort_next(1)), "Tables", "sort", 7),
    Action("sort.previous", "less_than_sign", "Sort by column before", "Order by the column before.",
           on_table(lambda table: table.sort_next(-1)), "Tables", "sort"),
    Action("sort.turn", "I", "Turn order", "Order the other way round.",
           on_table(lambda table: table.turn_order()), "Tables", "sort"),
    Action("columns", "o", "Columns", "All columns and what they mean: show, hide, go to one, order by one.",
           tables.choose_columns, "Tables", "columns", 7),
    Action("mark", "space", "Mark", "Mark the row or line, and go on to the next.", tables.mark, "Tables", "mark", 6),
    Action("mark.all", "asterisk", "Mark all", "Mark every row shown; once more takes the marks away.",
           tables.mark_all, "Tables", "mark"),
    Action("copy", "c", "Copy", "Copy what is looked at: marked rows or lines, a proof, stacks (OSC 52).",
           tables.copy, "hangtop", "", 10),
    Action("copy.verdict", "y", "Copy verdict", "Copy the verdict in ten lines, to be told to somebody (OSC 52).",
           tables.copy_verdict, "hangtop"),
    Action("metric.next", "v", "Figure", "Next figure in the cells: utilisation, memory, power, temperature, clock.",
           going.metric_next, "Overview", "metric", 4),
    Action("metric.previous", "V", "Figure before", "The figure before.",
           going.metric_previous, "Overview", "metric"),
    Action("overview.closer", "plus,equals_sign", "Closer", "More of each node, in more cells.",
           going.closer, "Overview", "view"),
    Action("overview.farther", "minus", "Farther", "More nodes, in fewer cells each.",
           going.farther, "Overview", "view"),
    Action("waits", "W", "Who waits", "Who waits for whom, from any panel.", going.show_waits, "Job"),
    Action("log.follow", "F", "Follow", "Go to the newest line and stay there.", going.log_follow, "Logs", "log", 4),
    Action("log.pause", "p", "Pause", "Stand still on this line, or follow again.",
           going.log_pause, "Logs", "log", 4),
    Action("log.severity", "w", "Severity", "All lines; warnings and worse; errors alone.",
           going.log_severity, "Logs", "log", 5),
    Action("log.fold", "z", "Fold", "Lines that many ranks write at once as one, or each alone.",
           going.log_fold, "Logs", "log", 6),
    Action("log.next", "n", "Next alarm", "To the next warning or error.", going.next_alarm(1), "Logs", "log", 5),
    Action("log.previous", "N", "Alarm before", "To the warning or error before.",
           going.next_alarm(-1), "Logs", "log"),
    Action("log.time", "at", "Time", "Go to a time of day (02:47, 02:47:10) or back by an age (5m).",
           going.ask_time, "Logs", "log", 5),
    Action("time.toggle", "space", "Pause", "Stand still at this moment; live again, or play a recording on.",
           scrubbing.toggle, "Time", "time", 6),
    Action("time.live", "0", "Now", "To the newest moment, from any panel.", scrubbing.live, "Time"),
    Action("time.back", "comma", "Back in time", "Show an earlier moment, from any panel.",
           scrubbing.scrubs(-1), "Time"),
    Action("time.forth", "full_stop", "On in time", "Show a later moment, from any panel.",
           scrubbing.scrubs(1), "Time"),
    Action("time.closer", "left_square_bracket", "Less time", "Show half as much time or less, more closely.",
           scrubbing.zooms(-1), "Time"),
    Action("time.wider", "right_square_bracket", "More time", "Show more time, up to seven days.",
           scrubbing.zooms(1), "Time"),
    Action("time.next", "n", "Next mark", "To what happened next: started, lost, late, hang, dump, repair, your marks.",
           scrubbing.marks(1), "Time"),
    Action("time.previous", "N", "Mark before", "To what happened before.", scrubbing.marks(-1), "Time"),
    Action("time.mark", "m", "Set mark", "Mark this moment on the line of time.", scrubbing.set_mark, "Time"),
    Action("stacks.dump", "d", "Dump", "Look at the stacks of the marked ranks, or of the one under the cursor.",
           stacks.dump(), "Job", "ranks", 4, looks=True),
    Action("stacks.all", "D", "Dump all", "Look at the stacks of all ranks, without pausing them.",
           stacks.dump(everybody=True), "Job", "", 5, looks=True),
    Action("stacks.native", "ctrl+n", "Dump native", "Stacks with native frames: 0.5 s of CPU, 25 ms of pause a rank.",
           stacks.native, "Job", "ranks", 0, Touch.JOB),
    Action("stacks.flame", "f", "Flame graph", "Sample the marked ranks for 10 s without pausing them; SVG and a tree.",
           probes.flame_graph, "Job", "ranks", 0, Touch.NODE),
    Action("probe.collectives", "a", "Probe", "Measure collectives between all nodes; loads their network for seconds.",
           asks(probes.collectives), "Job", "", 0, Touch.JOB),
    Action("probe.path", "P", "Path", "Measure the path between all nodes: MTU, loss, throughput; loads their network.",
           asks(probes.path), "Job", "", 0, Touch.JOB),
    Action("traces", "t", "Traces", "What profiler traces, here or on the nodes, say of compute and waits.",
           probes.ask_traces, "Job", "", 0),
    Action("recorder", "r", "Recorder", "Ask the ranks for flight recorder dumps; the job goes on.",
           asks(probes.recorders), "Job", "", 0, Touch.JOB),
    Action("lint", "e", "Environment", "What is wrong with the settings of all ranks.",
           probes.lint_environment, "Job", "", 0),
    Action("probe.more", "M", "Measure", "List what else can be measured: packets, InfiniBand; each one asks.",
           probes.open_measurements, "Job", "", 0, Touch.NODE),
    Action("repair", "K", "Repair", "List what can be mended: orphans, stopped ranks, the port, bad nodes; each asks.",
           repairs.open_repairs, "Job", "", 0, Touch.NODE),
    Action("results", "R", "Results", "Answers of probes, flame graphs, traces, lint and recorder, to be read again.",
           own.open_results, "Job", "", 12),
    Action("report", "x", "Report", "Write an incident report here: verdict, evidence, merged stacks, state.",
           own.write_report, "Job", "", 11),
    Action("shell", "exclamation_mark", "Shell", "A shell on the selected node; hangtop comes back after it.",
           own.open_shell, "Job", "node", 9, Touch.NODE),
    Action("again", "A", "Try again", "Connect to a lost node now; what was left unanswered is asked once more.",
           own.try_again, "Job", "again"),
    Action("palette", "colon,ctrl+p", "Commands", "Find any action, node or theme by its name.",
           lambda app: app.main.open_palette(), "hangtop", "", 2),
    Action("help", "question_mark,f1", "Help", "All keys.", lambda app: app.main.open_help(), "hangtop", "", 2),
    Action("theme", "ctrl+t", "Theme", "Change the colours.", own.next_theme, "hangtop"),
    Action("redraw", "ctrl+l", "Redraw", "Draw the whole screen anew.", lambda app: app.redraw_all(), "hangtop"),
    Action("suspend", "ctrl+z", "To the shell", "Leave the terminal to the shell; fg there brings the screen back.",
           own.suspend, "hangtop", over=True),
    Action("quit", "q,ctrl+q,ctrl+c", "Quit", "Leave hangtop; asks once while the job hangs. Nothing stays on nodes.",
           own.leave, "hangtop", "", 2),
)  # fmt: skip
"""To add a key, add its action."""

BY_ID = {action.id: action for action in ACTIONS}


def bindings() -> list[Binding]:
    """Textual's bindings of all actions; those of the footer in its order.

    Of two with one key the more special one comes first: Textual runs the first that is valid.
    """
    order = sorted(ACTIONS, key=lambda action: (not action.needs, action.footer or 99))
    footer = sorted(order, key=lambda action: action.footer or 99)
    return [
        Binding(
            action.keys, action.binding, action.title, show=bool(action.footer), id=action.id, tooltip=action.help,
            priority=action.over,
        )
        for action in footer
    ]  # fmt: skip
