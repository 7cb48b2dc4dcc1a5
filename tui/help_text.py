"""The help: every action with its present keys, made from the registry."""

from __future__ import annotations

from collections.abc import Mapping

from tui.actions import ACTIONS, Action, Touch
from tui.dialogs.base import TextDialog
from tui.looks.keys import shown_keys
from tui.looks.theme import Tone
from tui.panels.base import Panel
from tui.panels.registry import BY_NAME
from tui.widgets.lines import Piece

_FILTER = (
    ("rank=3,7-9", "numbers, lists, ranges"),
    ("gpu.util<10", "also <= > >=, with units: 2G, 80%, 1m30s"),
    ("node=gpu[001-004]", "node sets, and * as in gpu0*"),
    ("node~gpu0", "a regular expression"),
    ("!state=S", "what does not match; also != and !~"),
    ("wchan=?", "what is unknown"),
    ('reader "data loader"', "words anywhere in the row; all terms must hold"),
)

_MOUSE = (
    ("click", "goes there: rows, cells, boxes, tabs, moments of the line of time; on a column's title: order by it"),
    ("two clicks", "go in, or choose"),
    ("on a key", "in the last line or in a dialog: presses it"),
)

_GROUPS = {"Overview": "overview", "Time": "overview", "Logs": "logs", "Stacks": "stacks"}


def help_dialog(keymap: Mapping[str, str], name: str, panel: Panel) -> TextDialog:
    """Make the help; the present panel's own keys come first, its columns, and the fields that its filter knows.

    Keys that need what this panel cannot do are dim: others do something else here.
    """
    can, fields, columns = panel.can, panel.fields(), panel.columns_told()
    groups = list(dict.fromkeys(action.group for action in ACTIONS))
    taken = {key for action in ACTIONS if action.needs and action.valid(can) for key in _keys(keymap, action)}
    own = [group for group, of in _GROUPS.items() if of == name]
    lines: list[list[Piece]] = [[(f"{BY_NAME[name].title}: {BY_NAME[name].help}", Tone.INFO)], []]
    for group in [*own, *(group for group in groups if group not in own)]:
        lines.append([(group, Tone.STRONG)])
        for action in ACTIONS:
            if action.group == group:
                keys = " ".join(shown_keys(keymap.get(action.id, action.keys)))
                here = action.valid(can) and (action.needs != "" or not taken.issuperset(_keys(keymap, action)))
                mark = _mark(action.touch) if here else "  (not here)"
                lines.append(
                    [
                        (f"  {keys:<12} ", Tone.ACCENT if here else Tone.DIM),
                        (_told(action), Tone.TEXT if here else Tone.DIM),
                        (mark, Tone.DIM),
                    ]
                )
        lines.append([])
    if columns:
        lines.append([("Columns", Tone.STRONG)])
        lines += [[(f"  {title:<14} ", Tone.ACCENT), (told, Tone.TEXT)] for _, title, told in columns]
        lines.append([])
    lines.append([("Mouse", Tone.STRONG)])
    lines += [[(f"  {what:<14} ", Tone.ACCENT), (does, Tone.TEXT)] for what, does in _MOUSE]
    lines.append([])
    lines.append([("Filter", Tone.STRONG)])
    lines += [[(f"  {text:<22} ", Tone.ACCENT), (help_, Tone.TEXT)] for text, help_ in _FILTER]
    if fields:
        lines.append([("  fields here: ", Tone.DIM), (" ".join(sorted(fields)), Tone.INFO)])
    return TextDialog("Help", lines)


def _keys(keymap: Mapping[str, str], action: Action) -> list[str]:
    return keymap.get(action.id, action.keys).split(",")


def _told(action: Action) -> str:
    """What the key does; of one that opens a panel its name, too."""
    opens = BY_NAME.get(action.id.removeprefix("panel."))
    return f"{opens.title}: {action.help}" if opens is not None else action.help


def _mark(touch: Touch) -> str:
    return {
        Touch.NOTHING: "",
        Touch.NODE: "  (not read-only)",
        Touch.JOB: "  (asks first; not read-only)",
    }[touch]
