"""Which ranks processes are that do not say it, by what others have written of them on this node.

torch's flight recorder, in the dumps that lie there, and Ray.
"""

from __future__ import annotations

from typing import Dict, Mapping, NamedTuple

from collectors.node.blocking import BlockingGuard
from collectors.node.ranks.ray_state import ranks_of
from collectors.node.ranks.recorder_rank import ranks_by_dumps
from collectors.node.ranks.tracked import FIRST_PAUSE, LONGEST_PAUSE

PATIENCE = 3.0
"""Seconds for files that may lie on a network, and for Ray's dashboard."""


class WrittenRank(NamedTuple):
    """A rank, and who has written it: ``recorder`` or ``ray``."""

    rank: int
    by: str


class WrittenRanks:
    """Looks with growing pauses, and anew when others than before are without a number."""

    def __init__(self, proc: str) -> None:
        self._proc = proc
        self._guard: "BlockingGuard[Dict[int, int]]" = BlockingGuard(PATIENCE)
        self._nameless: Mapping[int, float] = {}
        self._look_at = 0.0
        self._pause = FIRST_PAUSE
        self.told: Dict[int, WrittenRank] = {}
        """By pid."""

    def look(self, nameless: Mapping[int, float], moment: float) -> None:
        """Look after these processes, which say no number themselves, if it is time to; others are forgotten.

        They come with the time of their start, on the wall clock.
        """
        if not nameless or (nameless.keys() == self._nameless.keys() and moment < self._look_at):
            return
        anew = nameless.keys() != self._nameless.keys()
        self._pause = FIRST_PAUSE if anew else min(2 * self._pause, LONGEST_PAUSE)
        self._nameless, self._look_at = dict(nameless), moment + self._pause
        answers = self._guard.ask(
            {
                "recorder": lambda: ranks_by_dumps(nameless, self._proc),
                "ray": lambda: ranks_of(self._proc, nameless.keys()),
            }
        )
        self.told = {}
        for by in ("ray", "recorder"):  # the recorder's word comes first
            answer = answers.get(by)
            for pid, rank in answer.items() if isinstance(answer, dict) else ():
                self.told[pid] = WrittenRank(rank, by)
