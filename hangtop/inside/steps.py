"""``step()`` and ``phase()``: reports of the job, or of a framework's hooks, in every step.

Nothing here raises, waits or talks to another rank. Without ``start()``, each call is one comparison with None.
"""

from __future__ import annotations

import sys
from typing import Dict, List, Optional

from collectors.samples.page import PHASE_NAMES
from hangtop.inside.page import Page, PhaseContext

NOTHING = PhaseContext(None, 0)
NUMBERS: Dict[str, int] = {name: number for number, name in enumerate(PHASE_NAMES) if name}


class Telling:
    """State of the reports of this process: its page, and the source of its steps."""

    def __init__(self) -> None:
        self.page: Optional[Page] = None
        self.did: Optional[List[str]] = None
        """What ``start()`` did; None before, so that it runs once."""
        self.by_hand = False
        """Whether the job or a framework's callback gives the numbers: then the hook of optimizers does not count."""
        self.problems: List[str] = []
        """Errors in here, which are kept from the job; each is written to standard error once."""

    def say(self, text: str) -> None:
        """Write to standard error, which may be closed in a daemon."""
        try:
            sys.stderr.write(text)
        except (AttributeError, OSError, ValueError):
            return  # there is nobody to tell

    def problem(self, text: str) -> None:
        """Tell the user of an error, once."""
        if text not in self.problems and len(self.problems) < 32:
            self.problems.append(text)
            self.say("hangtop.inside: %s\n" % text)


telling = Telling()


def step(number: Optional[int] = None) -> None:
    """Report that training step ``number`` is done; without a number, the last number plus one."""
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
    """Report that a phase of the step begins: one of ``data forward backward optimizer checkpoint evaluation``.

    As a context (``with hangtop.inside.phase("checkpoint"):``), it returns to the phase before at its end.
    """
    page = telling.page
    if page is None:
        return NOTHING
    try:
        return page.phase(NUMBERS[name])
    except Exception as error:  # noqa: BLE001 - as in step()
        telling.problem("phase(%r): %s" % (name, type(error).__name__))
        return NOTHING
