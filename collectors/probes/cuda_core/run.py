"""Asks ranks of one node for CUDA core dumps, and reads which kernels cuda-gdb found in them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from collectors.fleet import payload
from collectors.fleet.transport import Transport
from collectors.probes.cuda_core.remote.ask import CoreDumped
from collectors.probes.decoding import answer
from collectors.probes.gather import gather

ENTRY = "collectors.probes.cuda_core.remote.ask"
SLACK = 90.0
"""Seconds beyond those of the dumps for the start there and for reading them."""
KERNELS = 8
_answered = answer(CoreDumped)
_FRAME = re.compile(r"^#0 {1,4}(?:0x[0-9a-f]{1,16} in )?(.{1,2000}?) ?<<<", re.MULTILINE)
_DIMENSIONS = r"(?:\([\d,]{1,60}\) +){2,3}"
_ROW = re.compile(
    r"^[* ] {0,12}\d{1,6} +\S{1,12} +\d{1,6} +\d{1,20} +\S{1,20} +0x[0-9a-f]{1,200} +" + _DIMENSIONS + r"(.{1,2000})$",
    re.MULTILINE,
)
"""A row of ``info cuda kernels``: number, parent, device, grid, status, SMs, dimensions, and the call."""
NAME = 200
"""Characters of a kernel's name that are shown: templates run to kilobytes."""


async def ask(transport: Transport, python: str, ranks: Sequence[tuple[int, int]], seconds: float) -> list[CoreDumped]:
    """What became of each (rank, pid). Raises :class:`~collectors.fleet.transport.TransportError`."""
    found: list[CoreDumped] = []

    def take(line: bytes) -> bool:
        one = _answered(line)
        if one.pid >= 0:
            found.append(one)
        return one.pid < 0

    arguments = {"ranks": [list(rank) for rank in ranks], "seconds": seconds}
    await gather(transport, payload.command(python), payload.pack(ENTRY, arguments), take, seconds + SLACK)
    return found


def kernels(shown: str) -> tuple[str, ...]:
    """Kernels that cuda-gdb lists in a dump, as it writes them; the one in focus first."""
    names = [_name(call) for call in (*_FRAME.findall(shown), *_ROW.findall(shown))]
    return tuple(dict.fromkeys(name for name in names if name))[:KERNELS]


def _name(call: str) -> str:
    """A kernel's name without its arguments: ``f(int*, int)``, ``void (anonymous namespace)::g<4>(a)``, ``h() x=1``."""
    call = call.strip()
    depth = 0
    for place in range(len(call) - 1, -1, -1):
        if call[place] == ")":
            depth += 1
        elif call[place] == "(":
            depth -= 1
            if depth == 0:
                return call[:place].strip()[:NAME] if not call.startswith("(anonymous", place) else call[:NAME]
    return call[:NAME]
