"""The page that a process which called ``hangtop.inside.start()`` shares: where in it lies what.

A page is a memfd called :data:`NAME` of :data:`SIZE` bytes, mapped by the process that made it; others find it among
that process's open files, which its own user and root alone may do. Numbers are 8 bytes in the machine's own order:
integers, or floats where it says "seconds". Times are the wall clock.

Who writes: the process itself, everything but the question; whoever asks, the question, and of that its number last.
What moves is told as pairs of a number and its time, each in one go that fills both with zeros first: a pair whose time
is 0 is none, and a reader takes what it has met twice. An answer stands between two equal even values of
:data:`ANSWER_SEQUENCE`; a reader that meets an odd or a changed one looks again.
"""

from __future__ import annotations

from typing import Iterable

NAME = "hangtop-inside"
MAGIC = b"HTINSIDE"
VERSION = 2
READABLE = (1, 2)
"""Versions whose words a reader of this one finds where they lie here; the first has no :data:`GROUP`."""
SIZE = 16384

# words of 8 bytes, by number; written once, the magic last
(MAGIC_WORD, VERSION_WORD, SIZE_WORD, PID, STARTED, RANK, WORLD_SIZE, LOCAL_RANK, SIGNAL) = range(9)
"""``PID`` is the number that the process has in its own namespace, ``STARTED`` seconds, ``SIGNAL`` the one on which it
writes its stacks into the file :data:`STACKS` (0: none); ranks are -1 where they are not known."""

# what moves
(STEP, STEP_AT, PHASE, PHASE_AT) = range(9, 13)
"""``STEP`` is -1 before the first, ``PHASE`` an index of :data:`PHASE_NAMES`."""
PAIR = "=qd"
"""A number and its time, as :mod:`struct` packs them."""

# the question
(QUESTION, CHECK, AT_STEP, DEADLINE, ASKED_AT, SEEN, GROUP) = range(16, 23)
"""``QUESTION`` is its number; the process sets it to 0 and ``SEEN`` to that number when it takes it. ``CHECK`` is an
index of :data:`CHECKS`; it is answered at the end of step ``AT_STEP``, within ``DEADLINE`` seconds, among the ranks
of which ``GROUP`` is the :func:`group_number`: 0 for all of the job."""

# texts: 4 bytes of length, then UTF-8
TOLD_GROUPS, TOLD_GROUPS_LIMIT = 256, 252
"""Lines: process groups of which this process is one rank, but that of all: ``0-6:2 mesh_dp`` (first, last and step of
its global ranks; ``0,3,4`` where they have no such order), and what the job calls it."""
SAID, SAID_LIMIT = 512, 3580
"""Lines: the beginning of the path of the recorder's pipe, or nothing; then what start() did, one each."""
ANSWER_SEQUENCE = 4096 // 8
ANSWER, ANSWER_LIMIT = 4104, 12276
"""JSON array of the latest results, newest last; see :mod:`hangtop.inside.results`."""

PHASE_NAMES = ("", "data", "forward", "backward", "optimizer", "checkpoint", "evaluation")
CHECKS = ("", "same", "placement", "mesh", "barrier", "bandwidth", "stragglers")
"""What can be asked for by its number."""
OF_GROUP = ("same", "barrier", "bandwidth", "stragglers")
"""Those that can be asked of one process group alone; where parameters lie is a matter of all ranks of a model."""

STACKS = "hangtop-stacks"
"""Name of the memfd into which faulthandler writes; whoever asks empties it before."""


def group_number(ranks: Iterable[int]) -> int:
    """Number by which a process group is named: the same for the same global ranks in any order, from 1 to 2⁶¹."""
    mixed = 0
    for rank in sorted(ranks):
        mixed = (mixed * 1_000_003 + rank + 1) % ((1 << 61) - 1)
    return mixed + 1
