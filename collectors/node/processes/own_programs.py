"""Which processes are this tool's: those are never ranks, though in a container they inherit the number of one.

A way into a container (``docker exec``, ``kubectl exec``, an sshd in a pod) gives the environment of the container to
whatever it starts there. By SSH a command is known by its words; by other ways the shell marks all that it starts.
"""

from __future__ import annotations

import re
from typing import Mapping, Sequence

_HELD = re.compile(r"/proc/\d+/fd/\d+")
"""How a py-spy is started that is held open: lent, in memory, or a file that nobody can put another in the place of."""

MARK = "HANGTOP_OWN"
"""Set to anything in the environment of what a shell of ours starts."""


def is_own(words: Sequence[str]) -> bool:
    """True for the command that starts one of our programs (``payload.command``): ``python3 … -c PROGRAM hangtop``.

    Also for the py-spy that one of them has started: for native frames it maps the libraries of the rank it looks at.
    """
    if words and _HELD.fullmatch(words[0]):
        return tuple(words[1:2]) in {("dump",), ("record",)}
    return "hangtop" in words[2:9] and "-c" in words[1:8]


def is_marked(env: Mapping[str, str]) -> bool:
    """True for the environment of what a shell of ours has started."""
    return MARK in env
