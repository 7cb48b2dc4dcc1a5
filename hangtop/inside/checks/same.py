"""``check_same``: whether replicas are still equal, bit by bit."""

from __future__ import annotations

from typing import Any

from hangtop.inside.checks.comparing import Differing, Rows, compare
from hangtop.inside.checks.digests import digests
from hangtop.inside.checks.items import items_of
from hangtop.inside.checks.meeting import harmless
from hangtop.inside.results import CheckResult, Noted

ADVICE = (
    "Replicas that differ train different models and hide it: look for code that runs on some ranks only, data or "
    "seeds per rank before the model is built, a buffer that is not broadcast, and for hardware if the same rank "
    "differs again."
)


@harmless("same")
def check_same(*things: Any, group: Any = None, seconds: float = 60.0) -> CheckResult:
    """Compare replicas bit by bit among the ranks of ``group`` (default: of the job).

    ``things``: modules (parameters and buffers), optimizers, tensors, mappings and sequences of them, ``"rng"``. A
    DTensor is compared among ranks with the same shard. All ranks of the group must call it at the same point; a rank
    that does not come within ``seconds`` is named.
    """

    def rows() -> Rows:
        items = items_of(things)
        tensors = [item for item in items if item.tensor is not None]
        found = {item.name: (item.shard, item.text) for item in items if item.tensor is None}
        for item, digest in zip(tensors, digests([item.tensor for item in tensors])):
            found[item.name] = item.shard, "%016x %s %s" % (digest, item.tensor.dtype, list(item.tensor.shape))
        return found

    def note(one: Differing) -> Noted:
        return Noted("replicas_differ", "critical", one.summary, one.ranks, one.evidence, ADVICE)

    return compare("same", "tensors and states", rows, note, group, seconds)
