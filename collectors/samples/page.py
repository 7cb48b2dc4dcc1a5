"""The page that a process which called ``hangtop.inside.start()`` shares: where in it lies what.

A page is a memfd called :data:`NAME` of :data:`SIZE` bytes, mapped by the process that made it; others find it among
that process's open files, which its own user and root alone may do. Numbers are 8 bytes in the machine's own order:
integers, or floats where it says "seconds". Times are the wall clock.

Only the process itself writes; words without a name here were used by earlier versions. What moves is told as pairs of
a number and its time, each in one go that fills both with zeros first: a pair whose time is 0 is none, and a reader
takes what it has met twice. An answer stands between two equal even values of :data:`ANSWER_SEQUENCE`; a reader that
meets an odd or a changed one looks again.
"""

from __future__ import annotations

NAME = "hangtop-inside"
MAGIC = b"HTINSIDE"
VERSION = 2
SIZE = 16384

# words of 8 bytes, by number; written once, the magic last
(MAGIC_WORD, VERSION_WORD, SIZE_WORD, PID, STARTED, RANK, WORLD_SIZE, LOCAL_RANK) = range(8)
"""``PID`` is the number that the process has in its own namespace, ``STARTED`` seconds; ranks are -1 where they are not
known."""

# what moves
(STEP, STEP_AT, PHASE, PHASE_AT) = range(9, 13)
"""``STEP`` is -1 before the first, ``PHASE`` an index of :data:`PHASE_NAMES`."""
PAIR = "=qd"
"""A number and its time, as :mod:`struct` packs them."""

# texts: 4 bytes of length, then UTF-8
SAID, SAID_LIMIT = 512, 3580
"""Lines: the beginning of the path of the recorder's pipe, or nothing; then what start() did, one each."""
ANSWER_SEQUENCE = 4096 // 8
ANSWER, ANSWER_LIMIT = 4104, 12276
"""JSON array of the latest results, newest last; see :mod:`hangtop.inside.results`."""

PHASE_NAMES = ("", "data", "forward", "backward", "optimizer", "checkpoint", "evaluation")
CHECKS = ("same", "placement", "mesh", "barrier")
"""Names of the checks whose results a page may hold."""
