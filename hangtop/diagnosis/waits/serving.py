"""A rank that serves others: between two requests it sleeps until any of its connections brings one."""

from __future__ import annotations

from hangtop.diagnosis.stacks.doing import Activity
from hangtop.diagnosis.stacks.generic import NETWORK, SERVER
from hangtop.diagnosis.waits.rank_status import RankStatus

_ANY = frozenset("select pselect6 poll ppoll epoll_wait epoll_pwait".split())
"""Calls that wait for any of several files."""


def serves(status: RankStatus) -> bool:
    """Whether every look met it so, in code of its own, and it hardly used its CPU: a buffer, a parameter server.

    Who waits for one connection, or in something that is known, asks for something itself. A client that waits for
    several at once looks the same.
    """
    looks = status.readings
    return status.state == "working" and status.blocked and len(looks) > 0 and all(map(_waits_for_any, looks))


def _waits_for_any(doing: Activity) -> bool:
    own = doing.kind == "code" and not doing.context and doing.thread == "main"
    return own and doing.label in (NETWORK, SERVER) and doing.syscall in _ANY and not doing.waiting_on
