"""A rank that goes through many files on slow storage: each call keeps it for a while, and ends."""

from __future__ import annotations

from hangtop.diagnosis.stacks.doing import Activity
from hangtop.diagnosis.stacks.system import OPENS
from hangtop.diagnosis.tables.thresholds import STILL_SWITCHES_PER_S
from hangtop.diagnosis.tables.wchan import sleep_at
from hangtop.diagnosis.waits.rank_status import RankStatus

_OF_NAMES = OPENS | frozenset("stat lstat fstat newfstatat statx access getdents64 close unlink mkdir".split())
_OF_BYTES = frozenset("read pread64 readv preadv write pwrite64 writev fsync fdatasync".split())
_NO_FILES = ("/dev/", "/proc/", "/sys/")


def ends_calls(status: RankStatus) -> bool:
    """True for a rank that most looks met in a call on a file, while several such calls end each second.

    However little they bring: the names in a folder, and heads of small files, count for no bytes. One call that does
    not end lets its thread sleep, or be in state D, without a switch.
    """
    if status.state != "working" or (status.motion.switches or 0.0) < STILL_SWITCHES_PER_S:
        return False
    return 2 * sum(map(_in_a_call, status.readings)) >= len(status.readings) > 0


def on_a_disk(status: RankStatus) -> bool:
    """True for a rank in state D where the kernel waits for a local disk: one big read of a slow one takes seconds."""
    doing, motion = status.activity, status.motion
    where = motion.wchan or (doing.wchan if doing is not None else "")
    return motion.state == "D" and sleep_at(where).ordinary


def _in_a_call(look: Activity) -> bool:
    path = look.waiting_on.partition(", to ")[0]
    on_a_file = path.startswith("/") and not path.startswith(_NO_FILES)
    return look.syscall in _OF_NAMES or (look.syscall in _OF_BYTES and on_a_file)
