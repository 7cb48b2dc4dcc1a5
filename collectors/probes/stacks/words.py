"""The few kinds of sample that the dumper speaks of, cut out of ``collectors.samples``.

Making all of them costs a node 30 ms of CPU, more than the looks at two ranks.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import collectors

_ROOT = Path(collectors.__file__).parents[1]
_IMPORTED = re.compile(r"^from collectors\.samples import (?:\(([^)]*)\)|([^\n#]*))", re.MULTILINE)


@cache
def spoken(modules: tuple[str, ...]) -> bytes:
    """Source of a ``collectors.samples`` that has what these modules import from it, and what those are made of.

    Raises :class:`ValueError` for a name that it does not have.
    """
    wanted = set(_names(modules))
    text = (_ROOT / "collectors" / "samples.py").read_text(encoding="utf-8")
    tree = ast.parse(text)
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    if unknown := wanted - classes.keys():
        raise ValueError(f"collectors.samples has no {', '.join(sorted(unknown))}")
    grown = wanted
    while grown:
        grown = {name for kept in grown for name in _used(classes[kept]) if name in classes} - wanted
        wanted |= grown
    lines = text.splitlines()
    parts = [
        "\n".join(lines[node.lineno - 1 : node.end_lineno])
        for node in tree.body
        if isinstance(node, ast.ImportFrom) or (isinstance(node, ast.ClassDef) and node.name in wanted)
    ]
    return "\n\n\n".join([*parts, ""]).encode()


def _names(modules: Iterable[str]) -> Iterable[str]:
    for module in modules:
        source = _ROOT.joinpath(*module.split(".")).with_suffix(".py").read_text(encoding="utf-8")
        for several, one in _IMPORTED.findall(source):
            yield from re.findall(r"\w+", several or one)


def _used(node: ast.ClassDef) -> Iterable[str]:
    return (inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name))
