"""The regular expressions of the product: in names, in tables, and where they are written in place."""

from __future__ import annotations

import ast
import functools
import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from collectors.node.late_re import LatePattern

ROOT = Path(__file__).resolve().parents[2]
OWN = re.compile(
    r"collectors\.fleet\.(?:ssh\.(?:client|config|settings|tokens|words|patterns|known_hosts)|targets\.(?:hostfile|chosen))\b"
    r"|tui\.ordering\.filter\b"
)
"""Where what the user wrote is read: command line, hostfile, SSH configuration, filters."""
PACKAGES = ("collectors", "hangtop", "tui")
METHODS = frozenset(("match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer"))


class Found(NamedTuple):
    """A pattern, where it is, and how it is used: ``search`` where that is not known."""

    name: str
    pattern: re.Pattern[Any]
    anchored: bool


def modules() -> list[ModuleType]:
    """Every module of the product that can be imported here."""
    found = []
    for package in PACKAGES:
        top = importlib.import_module(package)
        for info in pkgutil.walk_packages(top.__path__, package + "."):
            if ".demo.job" not in info.name:  # needs torch, and reads nothing that is remote
                found.append(importlib.import_module(info.name))
    return found


def patterns() -> list[Found]:
    """Every pattern that a module of the product holds, in a name or in a table, and those written in place."""
    loaded = modules()
    uses = _uses()
    found: dict[tuple[Any, int], Found] = {}
    for module in loaded:
        for name, value in vars(module).items():
            for where, pattern in _within(value, name, 0):
                own = module.__name__ if name.startswith("_") else ""
                ways = uses.get((own, name), {"search"}) if where == name else {"search"}
                anchored = ways <= {"match", "fullmatch"}
                known = found.get((pattern.pattern, pattern.flags))
                if known is None or (known.anchored and not anchored):
                    found[pattern.pattern, pattern.flags] = Found(f"{module.__name__}.{where}", pattern, anchored)
    for place, pattern in _in_place():
        found.setdefault((pattern.pattern, pattern.flags), Found(place, pattern, False))
    return sorted((one for one in found.values() if not OWN.match(one.name)), key=lambda one: one.name)


def _within(value: object, name: str, depth: int) -> Iterator[tuple[str, re.Pattern[Any]]]:
    if isinstance(value, re.Pattern):
        yield name, value
    elif isinstance(value, LatePattern):
        yield name, value.compiled
    elif depth < 5 and isinstance(value, (tuple, list, frozenset, set)):
        for place, item in enumerate(value):
            yield from _within(item, f"{name}[{place}]", depth + 1)
    elif depth < 5 and isinstance(value, dict):
        for key, item in value.items():
            yield from _within(item, f"{name}[{key!r}]", depth + 1)
    elif depth < 5 and not isinstance(value, (type, ModuleType)) and hasattr(type(value), "__dataclass_fields__"):
        for field in vars(type(value))["__dataclass_fields__"]:
            yield from _within(getattr(value, field, None), f"{name}.{field}", depth + 1)


@functools.cache
def _sources() -> tuple[tuple[str, tuple[ast.AST, ...]], ...]:
    """Each file of the product and all nodes of its syntax tree."""
    found = []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            found.append((name.removesuffix(".__init__"), tuple(ast.walk(ast.parse(path.read_text())))))
    return tuple(found)


def _uses() -> dict[tuple[str, str], set[str]]:
    """For each name, what is done with it: methods of patterns, ``search`` for any other use.

    By module for private names; for the others all modules together, under an empty one.
    """
    found: dict[tuple[str, str], set[str]] = {}
    for module, nodes in _sources():
        called: set[int] = set()
        for node in nodes:
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute):
                name = node.value.id if isinstance(node.value, ast.Name) else node.value.attr
                if node.attr in METHODS:
                    found.setdefault((module if name.startswith("_") else "", name), set()).add(node.attr)
                    called.add(id(node.value))
        for node in nodes:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and id(node) not in called:
                found.setdefault((module if node.id.startswith("_") else "", node.id), set()).add("search")
    return found


def _in_place() -> Iterator[tuple[str, re.Pattern[Any]]]:
    """Patterns that are given to a function of ``re`` as they stand."""
    for path, nodes in _sources():
        for node in nodes:
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
                continue
            of = node.func.value
            first = node.args[0]
            if (
                isinstance(of, ast.Name)
                and of.id == "re"
                and isinstance(first, ast.Constant)
                and node.func.attr != "escape"
            ):
                yield f"{path}:{node.lineno}", re.compile(first.value)
