"""Whose NCCL has something under way in the network, by the CPU of the threads beside the main one.

NCCL's proxy progress thread never sleeps while an operation over the network is under way, and sleeps on a condition
without one (``src/proxy.cc`` of NVIDIA/nccl). On an H200 with NCCL 2.28.9 it used 0.99 to 1.01 cores, a third of them
in user mode, in every rank that had launched a collective over sockets, and none in the one that had not.
"""

from __future__ import annotations

from collections.abc import Sequence

from hangtop.diagnosis.waits.rank_status import RankStatus

UNDER_WAY = 0.7
"""Cores that threads beside the main one use at the least, where one of them is NCCL's and has something to do."""
TWO = 1.7
"""The same where two of NCCL's never sleep: a communicator has one each. On that H200 it was 2.0 in all ranks of a job
whose ranks called collectives of two groups in another order, and 1.0 where all waited for any other reason."""
PAUSED = 0.5
"""As :data:`UNDER_WAY`, where a look may have stopped the process for a part of the time."""
AT_REST = 0.1
"""Cores that they use at the most where all of them sleep."""
ENOUGH = 3
"""Ranks among which one can be unlike the others."""
BY_THREADS = 0.72
"""Most weight where the threads of NCCL decide who is odd: ranks of one node need none of them for one another."""
NOT_LAUNCHED = (
    "It has not launched what the others wait in, or waits for ranks of its own node: look at what its GPU does (the "
    "kernel before that, Xid lines, power), and at its stack."
)


def none_under_way(waiting: Sequence[RankStatus]) -> RankStatus | None:
    """The one rank that has nothing under way in the network while all others have; None where there is no such.

    It has not launched what the others wait in, or waits for ranks of its own node alone: NVLink needs no such thread.
    A rank whose own main thread does not spin tells nothing: in a backward pass another thread waits for the GPU.
    """
    resting: RankStatus | None = None
    for one in waiting:  # no further than it takes: the past of each is kept packed
        cores = one.motion.threads if one.motion.busy else None
        if cores is None or AT_REST < cores < UNDER_WAY or (cores <= AT_REST and resting is not None):
            return None
        if cores <= AT_REST:
            resting = one
    return resting if len(waiting) >= ENOUGH else None


def two_under_way(waiting: Sequence[RankStatus]) -> bool:
    """Whether every one of these has operations of two communicators under way in the network, and none ends."""
    return len(waiting) > 1 and all(one.motion.busy and (one.motion.threads or 0.0) >= TWO for one in waiting)


def rests_beside(these: Sequence[RankStatus], others: Sequence[RankStatus]) -> bool:
    """True where all the others have something under way in the network, and none of these has.

    Whoever of these waits by another library than NCCL sleeps meanwhile, in all its threads.
    """
    rest = all((cores := one.motion.threads) is not None and cores <= AT_REST for one in these)
    return rest and all((cores := one.motion.threads) is not None and cores >= PAUSED for one in others)


def in_a_kernel(status: RankStatus) -> bool:
    """True for who holds others up by its GPU, which is full of something that is not the others' collective."""
    return status.state == "on_gpu" and status.load == "spinning"
