"""Standard streams that whoever started hangtop has closed (``>&-``): they are there, and nothing comes or is kept."""

from __future__ import annotations

import os
import sys


def fill_closed() -> None:
    """Open /dev/null in the place of each closed one, before a connection gets its number and our text with it.

    Raises :class:`OSError` where /dev/null cannot be opened.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)  # the lowest that is free: this one, as those below are open
            assert opened == number
        if getattr(sys, name) is None:
            stream = open(number, "w" if number else "r", encoding="utf-8", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)
