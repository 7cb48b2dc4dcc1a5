"""Reports of a worker of the collective probe, ``["kind", {fields}]`` a line: bounded and without control codes.

The lines are written by ``remote/worker.py``. What is none of them is the library's own output.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from collectors.fleet.clean import clean

Text = Annotated[str, Meta(max_length=4096)]
Rank = Annotated[int, Meta(ge=0, le=1 << 24)]
Ranks = Annotated[list[Rank], Meta(max_length=65536)]
Count = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Change = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
Seconds = Annotated[float, Meta(ge=0.0, le=1e9)]


class WorkerReport(msgspec.Struct, frozen=True):
    """Any of them; ``id`` is the round's number, 0 for what belongs to none."""

    id: Count = 0


class NoTorch(WorkerReport, frozen=True):
    """The interpreter has no torch."""

    python: Text = ""
    why: Text = ""


class Ready(WorkerReport, frozen=True):
    """Torch is imported."""

    nccl: Text = ""
    """Version of torch's own NCCL; empty on CPU."""


class StoreStarted(WorkerReport, frozen=True):
    """Rank 0 keeps the store, on this port."""

    port: Annotated[int, Meta(ge=1, le=65535)] = 1


class MissingRanks(WorkerReport, frozen=True):
    """Ranks that did not come to the barrier."""

    ranks: Ranks = msgspec.field(default_factory=list)


class Latency(WorkerReport, frozen=True):
    """Time of the smallest all_reduce."""

    median_us: Seconds = 0.0


class Equal(WorkerReport, frozen=True):
    """Seconds that each rank needed for the same work."""

    seconds: Annotated[list[Seconds], Meta(max_length=65536)] = msgspec.field(default_factory=list)


class Measured(WorkerReport, frozen=True):
    """One operation at one size."""

    op: Text = ""
    bytes: Annotated[int, Meta(ge=0, le=1 << 50)] = 0
    seconds: Seconds = 0.0
    wrong: Ranks = msgspec.field(default_factory=list)
    odd: Ranks = msgspec.field(default_factory=list)


class RankFailed(WorkerReport, frozen=True):
    """A rank raised."""

    rank: Rank = 0
    stage: Text = ""
    why: Text = ""


class Finished(WorkerReport, frozen=True):
    """A rank is through, with the TCP segments that its node sent meanwhile, and sent again."""

    rank: Rank = 0
    segments: Change = 0
    retransmitted: Change = 0


class Gone(WorkerReport, frozen=True):
    """The worker has ended; said here, by no worker."""

    why: Text = ""


_KINDS: dict[str, type[WorkerReport]] = {
    "no_torch": NoTorch,
    "ready": Ready,
    "store": StoreStarted,
    "absent": MissingRanks,
    "latency": Latency,
    "work": Equal,
    "figure": Measured,
    "failed": RankFailed,
    "done": Finished,
}
_split = msgspec.json.Decoder(tuple[str, msgspec.Raw]).decode
_decoders = {name: msgspec.json.Decoder(kind).decode for name, kind in _KINDS.items()}


def read(line: bytes) -> WorkerReport | None:
    """The report in a line; None for one that no worker writes."""
    if not line.startswith(b'["'):
        return None
    try:
        name, fields = _split(line)
        decode = _decoders.get(name)
        found = None if decode is None else decode(fields)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    if found is None:
        return None
    texts = {name: clean(text) for name in found.__struct_fields__ if isinstance(text := getattr(found, name), str)}
    return msgspec.structs.replace(found, **texts) if texts else found
