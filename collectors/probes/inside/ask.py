"""Runs the program on a node that writes questions onto pages, and takes what it says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from collectors.fleet import payload
from collectors.fleet.clean import clean
from collectors.fleet.transport import Transport
from collectors.probes.gather import gather
from collectors.probes.inside.remote.question import Asked

SECONDS = 10.0
_ASKED = msgspec.json.Decoder(tuple[str, Asked])


async def write(
    transport: Transport, python: str, pids: Sequence[int], *, number: int, check: str, at_step: int, seconds: float,
    group: int = 0,
) -> list[Asked]:  # fmt: skip
    """Ask these processes of a node. Raises :class:`~collectors.fleet.transport.TransportError`.

    ``group`` is the :func:`~collectors.samples.page.group_number` of the ranks that make the check; 0 for all.
    """
    arguments = {"check": check, "at_step": at_step, "seconds": seconds, "group": group}
    return await _run(transport, python, pids, number, arguments)


async def withdraw(transport: Transport, python: str, pids: Sequence[int], *, number: int) -> list[Asked]:
    """Take a question back where it has not been taken yet. Raises as :func:`write` does."""
    return await _run(transport, python, pids, number, {"check": "", "at_step": 0, "seconds": 0.0, "group": 0})


async def _run(
    transport: Transport, python: str, pids: Sequence[int], number: int, arguments: Mapping[str, object]
) -> list[Asked]:
    found: list[Asked] = []

    def take(line: bytes) -> bool:
        _, one = _ASKED.decode(line)
        if one.pid < 0:
            return True
        found.append(one._replace(why=clean(one.why)))
        return False

    packed = payload.pack(
        "collectors.probes.inside.remote.question", {**arguments, "pids": list(pids), "number": number}
    )
    await gather(transport, payload.command(python), packed, take, SECONDS)
    return found
