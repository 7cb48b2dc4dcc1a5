"""What looks with native frames add to those with Python's alone."""

from __future__ import annotations

from collectors.samples.stacks import StackDump
from hangtop.diagnosis.stacks import activity
from hangtop.diagnosis.stacks.doing import Activity


def by_native(doing: Activity, dumps: list[StackDump]) -> Activity | None:
    """What looks with native frames at the same place add; None where there are none, or they tell no more.

    Native frames change the folded place of a rank that has not moved, so they must not count as a look of their own.
    """
    native = [dump for dump in dumps if dump.method == "native"]
    if not native or len(native) == len(dumps):
        return None
    told = activity(native)
    if told.error or told.kind == "unknown" or told.where != doing.where:
        return None
    return with_meaning(doing, told)


def with_meaning(doing: Activity, told: Activity) -> Activity:
    """Take the meaning from a look with native frames at the same place; time and movement from the others."""
    return doing._replace(
        kind=told.kind, op=told.op, label=told.label, waits=told.waits, context=doing.context | told.context,
        decided_by=told.decided_by, holder=told.holder or doing.holder, frames=told.frames, native_would_tell=False,
    )  # fmt: skip
