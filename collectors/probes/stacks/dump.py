"""The local half of a dump: ships the dumper to a node, lends it a py-spy where it has none, takes the answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from collectors.fleet.transport import Transport
from collectors.node.stacks.pyspy import dump_command
from collectors.node.stacks.stackdump import DumpRequest
from collectors.probes.stacks.dumper import DumpOrder, carry_out
from collectors.probes.stacks.lender import loan
from collectors.samples.stacks import StackDump

NATIVE_DEADLINE = 20.0
"""Seconds that one py-spy may take with native frames."""
_START_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class DumpManner:
    """How to look.

    ``native`` adds native frames (half a second of CPU and up to 25 ms of pause a process). ``blocking`` allows a pause
    of under 1 ms where reads without one stay torn. ``helpers`` also looks at the children that a process waits for.
    ``deadline`` is how long one py-spy may take, in seconds. ``py_spy`` is a path on the node; empty: look for one.
    ``sudo`` lets ``sudo -n`` be tried where the login may not trace.
    """

    native: bool = False
    blocking: bool = True
    helpers: bool = True
    samples: int = 1
    gap: float = 0.5
    deadline: float = 3.0
    py_spy: str = ""
    sudo: bool = False


def shown_command(pids: Sequence[int], manner: DumpManner) -> str:
    """What will be run on a node, to show before it is: one py-spy a process, here for the first of them."""
    method = "native" if manner.native else "nonblocking"
    words = dump_command(manner.py_spy or "py-spy", pids[0] if pids else 0, method, with_locals=True)
    more = f"  # and {len(pids) - 1} more" if len(pids) > 1 else ""
    return " ".join(words) + more


async def dump(
    transport: Transport,
    pids: Sequence[int],
    *,
    native: bool = False,
    samples: int = 1,
    manner: DumpManner | None = None,
    python: str = "python3",
    on_dump: Callable[[StackDump], None] | None = None,
) -> list[StackDump]:
    """Look at these processes of one node, ``samples`` times, all at once each time.

    Every pid gets an answer, frames or an ``error``; helpers that a process waits for come too. ``manner`` overrides
    ``native`` and ``samples``; ``on_dump`` hears of each dump as it comes. Times are the node's. Raises
    :class:`~collectors.fleet.transport.TransportError` when the node cannot be reached or the program not be started.
    """
    chosen = manner or DumpManner(native=native, samples=samples)
    dumps: list[StackDump] = []

    def take(sample: StackDump) -> None:
        dumps.append(sample)
        if on_dump is not None:
            on_dump(sample)

    limit = _limit(len(pids), chosen)
    why = await carry_out(DumpOrder(_request(pids, chosen), python, limit, loan), transport, take)
    answered = {sample.pid for sample in dumps}
    dumps.extend(_unanswered(pid, why or "no word of it") for pid in pids if pid not in answered)
    return dumps


async def warm(transport: Transport, pids: Sequence[int], *, python: str = "python3", py_spy: str = "") -> str:
    """Have a dumper at hand for a look at these processes soon: it finds or borrows its py-spy and looks at nobody.

    Returns why there is none; empty when there is. It ends some seconds later unless it is asked. Raises
    :class:`~collectors.fleet.transport.TransportError` when the node cannot be reached or the program not be started.
    """
    nothing = DumpManner(samples=0, py_spy=py_spy)
    order = DumpOrder(_request(pids, nothing), python, _START_SECONDS, loan)
    return await carry_out(order, transport, lambda _dump: None)


def _request(pids: Sequence[int], manner: DumpManner) -> DumpRequest:
    return DumpRequest(
        [[pid, pid] for pid in pids],
        native=manner.native,
        blocking=manner.blocking,
        helpers=manner.helpers,
        samples=manner.samples,
        gap=manner.gap,
        deadline=max(manner.deadline, NATIVE_DEADLINE) if manner.native else manner.deadline,
        py_spy=manner.py_spy,
        sudo=manner.sudo,
    )


def _limit(processes: int, manner: DumpManner) -> float:
    """Seconds after which a node is given up; its own deadlines pass long before, unless the link is cut."""
    one = NATIVE_DEADLINE if manner.native else manner.deadline
    return _START_SECONDS + manner.samples * (manner.gap + one * (2 + processes / 8))


def _unanswered(pid: int, why: str) -> StackDump:
    """No word on the process itself: it is the node that did not answer, which says nothing of its ranks."""
    return StackDump(pid, pid, time.time(), "none", "", "", "", 0.0, f"unreachable: {why}", [])
