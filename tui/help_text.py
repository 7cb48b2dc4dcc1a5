"""The help: every action with its keys, made from the table of actions."""

from __future__ import annotations

from tui.actions import ACTIONS, shown_keys
from tui.dialogs.base import TextDialog
from tui.looks.theme import Colour
from tui.panels.base import Panel
from tui.panels.registry import BY_NAME
from tui.widgets.lines import Content

_FILTER = (
    ("rank=3,7-9", "numbers, lists, ranges; words with * as in node=gpu0*"),
    ("util<10", "also <= > >=, with units: 2G, 80%, 90s, 5m"),
    ("command~data", "contains these letters"),
    ("!state=S", "does not match"),
    ("reader", "words anywhere in the row; all terms must hold"),
)


def help_dialog(name: str, panel: Panel) -> TextDialog:
    """Make the help: keys, the columns of the present panel, and the fields of its filter.

    Keys that do nothing on this panel are dim.
    """
    can = panel.can
    lines: Content = [[(f"{BY_NAME[name].title}: {BY_NAME[name].help}", Colour.INFO)]]
    for group in dict.fromkeys(action.group for action in ACTIONS):
        lines += [[], [(group, Colour.STRONG)]]
        for action in (action for action in ACTIONS if action.group == group):
            here = action.valid(can)
            opens = BY_NAME.get(action.id.removeprefix("panel."))
            text = f"{opens.title}: {action.help}" if opens is not None else action.help
            mark = "  (not here)" if not here else "  (not read-only)" if action.changes else ""
            colours = (Colour.ACCENT, Colour.TEXT) if here else (Colour.DIM, Colour.DIM)
            keys = " ".join(shown_keys(action.keys))
            lines.append([(f"  {keys:<12} ", colours[0]), (text, colours[1]), (mark, Colour.DIM)])
    for title, entries in (("Columns", panel.columns_help()), ("Filter", _FILTER)):
        if entries:
            lines += [[], [(title, Colour.STRONG)]]
            lines += [[(f"  {what:<20} ", Colour.ACCENT), (text, Colour.TEXT)] for what, text in entries]
    if fields := panel.fields():
        lines.append([("  fields here: ", Colour.DIM), (" ".join(sorted(fields)), Colour.INFO)])
    return TextDialog("Help", lines)
