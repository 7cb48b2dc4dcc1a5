"""Titles of dialogs, and so of results, begin alike: with a capital, or with the name of what they are about."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import tui

DIALOGS = {"TextDialog", "ChoiceDialog", "ConfirmDialog", "LineDialog"}
WITH_APP = {"answer": 0, "run_shown": 1, "confirmed": 1, "_plain": 1, "_show": 1, "_shown": 1, "_text": 1}
"""Functions that show a dialog, and the place of its title."""


def titles() -> Iterator[tuple[str, str]]:
    """Where a dialog is made, and how its title begins; those that begin with a name are left out."""
    for path in sorted(Path(tui.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            place = 0 if name in DIALOGS else WITH_APP.get(name)
            if place is None or len(node.args) <= place:
                continue
            title = node.args[place]
            first = title.values[0] if isinstance(title, ast.JoinedStr) else title
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield f"{path.name}:{node.lineno}", first.value


def test_titles_of_dialogs_begin_with_a_capital() -> None:
    found = dict(titles())
    assert len(found) > 20
    assert {where: title for where, title in found.items() if not title[0].isupper()} == {}
