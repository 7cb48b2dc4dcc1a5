"""Names that a pattern matches, as :mod:`glob` finds them, in folders of which others may have made anything.

Two links of a folder to itself, and ``**`` of the standard library goes through them in every order, without an end. So
``**`` goes into no link here, as that of a shell, and the number of names that it looks at is bounded.
"""

from __future__ import annotations

import glob
import os
import re
from typing import List, Set

NAMES = 200_000
"""Names that ``**`` looks at for one pattern."""
DEPTH = 64
"""Folders that ``**`` goes down."""
_ANYWHERE = re.compile(r"(?:(?<=/)|^)\*\*(?:/+|$)")


def matches(pattern: str, names: int = NAMES) -> List[str]:
    """Paths that match, sorted; of more than so many ``names`` below ``**``, which may stand once, the first ones."""
    before, *after = _ANYWHERE.split(pattern, 1)
    if not after:
        return sorted(glob.glob(pattern))
    found: Set[str] = set()
    for start in glob.glob(before) if before else ["."]:
        for folder, folders, files in os.walk(start):
            below = os.path.relpath(folder, start)
            inner = [name for name in folders if not name.startswith(".")]
            folders[:] = inner if below.count("/") < DEPTH else []
            here = os.path.normpath(os.path.join(before and start, below)) if before or below != "." else ""
            if after[0]:
                found.update(glob.glob(os.path.join(glob.escape(here), after[0])))
            else:
                found.update(os.path.join(here, name) for name in [*inner, *files] if not name.startswith("."))
            names -= len(folders) + len(files)
            if names <= 0:
                return sorted(found)
    return sorted(found)
