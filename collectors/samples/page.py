"""Layout of the page that a process shares after it called ``hangtop.inside.start()``.

A page is a memfd called :data:`NAME` of :data:`SIZE` bytes, mapped by the process that made it. Only that process's
user and root can find the page, among the process's open files. Numbers are 8 bytes in native byte order: integers, or
floats for times. Times are wall clock seconds.

Only the process itself writes; words without a name here were used by earlier versions. Step and phase are pairs of a
number and its time. Each pair is written by one call that first zeroes both words: a pair whose time is 0 is unset, and
a reader accepts values that two reads agree on. :data:`ANSWER_SEQUENCE` is odd while the results are being written; a
reader that finds an odd value reads again at its next look.
"""

from __future__ import annotations

NAME = "hangtop-inside"
MAGIC = b"HTINSIDE"
VERSION = 2
SIZE = 16384

VERSION_WORD, SIZE_WORD, PID = range(1, 4)
"""Words of 8 bytes, by number, written once; word 0 is the magic, written last. PID: in the process's own namespace."""
STEP, STEP_AT, PHASE, PHASE_AT = range(9, 13)
"""Words that change: ``STEP`` is -1 before the first, ``PHASE`` an index of :data:`PHASE_NAMES`."""
PAIR = "=qd"
"""A number and its time, as a :mod:`struct` format."""

# texts: 4 bytes of length, then UTF-8
PIPE, PIPE_LIMIT = 512, 3580
"""Beginning of the path of the recorder's pipe, up to a line feed; empty without one."""
ANSWER_SEQUENCE = 4096 // 8
ANSWER, ANSWER_LIMIT = 4104, 12276
"""JSON array of the latest results, newest last; see :mod:`hangtop.inside.results`."""

PHASE_NAMES = ("", "data", "forward", "backward", "optimizer", "checkpoint", "evaluation")
CHECKS = ("same", "placement", "barrier")
"""Names of the checks whose results a page may hold."""
