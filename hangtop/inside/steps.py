"""``step()`` and ``phase()``: what the job says in every step, and what a framework's hooks say for it.

Nothing here raises, waits or talks to another rank. Without ``start()`` every call is a comparison with None.
"""

from __future__ import annotations

import sys
from typing import Dict, List, Optional

from collectors.samples.page import PHASE_NAMES
from hangtop.inside.page import Page, PhaseContext

NOTHING = PhaseContext(None, 0)
NUMBERS: Dict[str, int] = {name: number for number, name in enumerate(PHASE_NAMES) if name}


class Telling:
    """What this process tells: its page, and who counts its steps."""

    def __init__(self) -> None:
        self.page: Optional[Page] = None
        self.did: Optional[List[str]] = None
        """What ``start()`` did, so that it is done once."""
        self.by_hand = False
        """The job, or a framework's callback, gives the numbers: the optimizers' own hook counts no more."""
        self.problems: List[str] = []
        """What went wrong in here and was kept from the job, each once."""

    def say(self, text: str) -> None:
        """Write to standard error, which a daemon may not have."""
        try:
            sys.stderr.write(text)
        except (AttributeError, OSError, ValueError):
            self.problem("standard error is closed")

    def problem(self, text: str) -> None:
        """Remember what went wrong."""
        if text not in self.problems and len(self.problems) < 32:
            self.problems.append(text)


telling = Telling()


def step(number: Optional[int] = None) -> None:
    """Say that training step ``number`` is done; without a number, one more than the last."""
    page = telling.page
    if page is None:
        return
    try:
        telling.by_hand = True
        if number is None:
            number = page.last_step + 1
        page.step(number)
    except Exception as error:  # noqa: BLE001 - whatever goes wrong in here must not reach the job
        telling.problem("step(): %s: %s" % (type(error).__name__, error))


def phase(name: str) -> PhaseContext:
    """Say that a phase of the step begins: one of ``data forward backward optimizer checkpoint evaluation``.

    As a context (``with hangtop.inside.phase("checkpoint"):``) it puts the phase before back at its end.
    """
    page = telling.page
    if page is None:
        return NOTHING
    try:
        return page.phase(NUMBERS[name])
    except Exception as error:  # noqa: BLE001 - as in step()
        telling.problem("phase(%r): %s" % (name, type(error).__name__))
        return NOTHING
