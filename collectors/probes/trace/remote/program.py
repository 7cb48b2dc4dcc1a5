"""The program that is sent to a node: reads the traces that lie there.

Arguments: ``patterns`` (list the files that they name) or ``paths`` (read these). Every :class:`RankTrace` is sent when
it is done, :class:`Done` comes last. Whatever comes on standard input re-arms the alarm that ends the program.
"""

from __future__ import annotations

import glob
import os
from typing import Dict, Iterable, List, NamedTuple

from collectors.node import watchdog
from collectors.node.globbing import matches
from collectors.node.say import say
from collectors.probes.trace.remote.reading import TraceFile, looks_like
from collectors.probes.trace.remote.reduction import of_file

NICENESS = 9
"""Added while traces are read: that takes seconds of a core, which anybody else may have before."""
FILES = 4_096
"""Files of one search."""
HEAD = 1 << 13
"""Bytes by which a trace is told: Kineto names its schema and devices at once."""


class ListedTrace(NamedTuple):
    """One file. The same one on shared storage has the same three on every node."""

    path: str
    size: int
    """-1 for one that cannot be looked at."""
    modified: int
    """Nanoseconds since the epoch."""


class Done(NamedTuple):
    """Nothing more comes."""

    traces: int


@watchdog.program
def main(arguments: Dict[str, object]) -> None:
    """Entry."""
    patterns, paths = arguments.get("patterns"), arguments.get("paths")
    if isinstance(patterns, list):
        for path in find([str(pattern) for pattern in patterns]):
            say(_listed(path))
    elif isinstance(paths, list):
        os.nice(NICENESS)
        for path in paths:
            say(of_file(str(path)))
    say(Done(len(paths) if isinstance(paths, list) else 0))


def find(patterns: Iterable[str]) -> List[str]:
    """Files that paths, folders and globs name, each once. A path that is given as it is comes whatever it holds.

    Of folders and globs only files count that look like traces. What names none comes as it is: reading it says why.
    """
    found: List[str] = []
    for pattern in patterns:
        path = os.path.expanduser(pattern)
        if not os.path.isdir(path) and (os.path.exists(path) or not glob.has_magic(path)):
            found.append(path)
            continue
        named = [path] if os.path.isdir(path) else matches(path)
        below = [one for folder in named if os.path.isdir(folder) for one in _under(folder)]
        files = [*(one for one in named if os.path.isfile(one)), *below]
        found += [one for one in files if may_be_trace(one)] or [path]
        if len(found) > FILES:
            break
    return list(dict.fromkeys(found))[:FILES]


def _under(folder: str) -> List[str]:
    every = matches(os.path.join(glob.escape(folder), "**"))
    return [path for path in every if path.endswith((".json", ".json.gz")) and not os.path.isdir(path)][:FILES]


def may_be_trace(path: str) -> bool:
    """Whether a file begins like a trace. One that cannot be read may be one: reading it says why not."""
    try:
        with TraceFile(path) as file:
            return looks_like(file.read(HEAD)) or bool(file.damage)
    except OSError:
        return True


def _listed(path: str) -> ListedTrace:
    try:
        status = os.stat(path)
    except OSError:
        return ListedTrace(path, -1, 0)
    return ListedTrace(path, status.st_size, status.st_mtime_ns)
