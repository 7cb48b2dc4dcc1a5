"""What the threads beside a rank's main one tell of NCCL's operations over the network.

NCCL's proxy progress thread never sleeps while an operation over the network is under way, and sleeps on a condition
without one (``src/proxy.cc`` of NVIDIA/nccl); a communicator has one each. On an H200 with NCCL 2.28.9 the threads
beside the main one used 0.99 to 1.01 cores in every rank that had launched a collective over sockets, none in the one
that had not, and 2.0 in all ranks of a job whose ranks called collectives of two groups in different order.
"""

from __future__ import annotations

from collections.abc import Sequence

from hangtop.diagnosis.waits.rank_status import RankStatus

AT_REST, ONE, TWO = 0.1, 0.5, 1.5
"""Cores: at most where all these threads sleep, at least where one of them, or two, have something under way."""
ENOUGH = 3
"""Ranks among which one can be unlike the others."""


def under_way(status: RankStatus) -> int | None:
    """How many communicators of a rank have operations under way over the network: 0, 1, 2; None where not known."""
    cores = status.motion.threads
    if cores is None or AT_REST < cores < ONE:
        return None
    return 0 if cores <= AT_REST else 1 if cores < TWO else 2


def network_rests(these: Sequence[RankStatus], others: Sequence[RankStatus]) -> bool:
    """Whether all the others have something under way in the network, and none of these has."""
    rest = all((cores := one.motion.threads) is not None and cores <= AT_REST for one in these)
    return rest and all((cores := one.motion.threads) is not None and cores >= ONE for one in others)


def none_under_way(waiting: Sequence[RankStatus]) -> RankStatus | None:
    """The one rank that has nothing under way in the network while all others have; None where there is no such.

    It has not launched what the others wait in, or waits for ranks of its own node alone: NVLink needs no such thread.
    A rank whose own main thread does not spin tells nothing: in a backward pass another thread waits for the GPU.
    """
    resting: RankStatus | None = None
    for one in waiting:  # no further than needed: the past of each is kept packed
        number = under_way(one) if one.motion.busy else None
        if number is None or (number == 0 and resting is not None):
            return None
        if number == 0:
            resting = one
    return resting if len(waiting) >= ENOUGH else None


def two_under_way(waiting: Sequence[RankStatus]) -> bool:
    """Whether each of these ranks has operations of two communicators under way in the network."""
    return len(waiting) > 1 and all(one.motion.busy and under_way(one) == 2 for one in waiting)
