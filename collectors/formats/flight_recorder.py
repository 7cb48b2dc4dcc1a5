"""Flight recorder dumps of torch 2.4 to 2.14, as pickle or JSON, of NCCL, nccl2 and gloo; torch is not needed.

Dumps differ between backends and encodings (checked on dumps of torch 2.13, and in the sources of other versions):

- ``pg_status`` is keyed by ``pg_id``, a counter of each process: group ``1`` may be one group on rank 0 and another
  group on rank 2. Entries carry ``pg_id`` and the name of the group, which is the same on all ranks.
- gloo leaves ``pg_config`` without names, and ``state`` at ``scheduled`` forever: only ``retired`` and ``pg_status``
  show progress.
- JSON has 0 for times that are None in the pickle, text for the numbers of ``pg_status``, and no ``entries`` if there
  are none.
- ``send A->B`` and ``recv A<-B`` have ranks within the group, A being the rank itself (``pointToPoint`` in
  ``ProcessGroupNCCL.cpp``); the ``ranks`` of ``pg_config`` are text, in group order. ``recv 3<-?``: from any rank.

A dump is plain data: a pickle that names any class is refused before any object is made.
"""

from __future__ import annotations

import re

from collectors.formats import BadFormat, pickled
from collectors.formats.loose import Loose, document, integer, items, mapping, text
from collectors.samples.collectives import Collective, RecorderDump
from collectors.samples.stacks import Frame

ENTRIES = 100_000
"""Most entries that are read of a dump; torch keeps 2,000 by default."""
FRAMES = 100
LARGEST = 64 << 20
"""Most bytes of a dump that is read."""

_PEER = re.compile(r"(?:send|recv)\w{0,40}\s{1,4}\d{1,9}\s{0,4}(?:->|<-)\s{0,4}(\d{1,9}|\?)")
_RANK = re.compile(r"(?<!\d)(\d{1,7})(?:\.(?:json|pkl|pickle|dump|bin))?$")
_PICKLE = re.compile(rb"\x80[\x02-\x05]")


def read(data: bytes, source: str, rank: int | None = None) -> RecorderDump:
    """Parse a dump. ``rank``: rank of the writer, if the caller knows it; else from the dump or from the file's name.

    Raises :class:`BadFormat` if the data are no dump, or without a rank.
    """
    known = mapping(_document(data))
    given = items(known.get("entries"), ENTRIES)
    if not {"pg_status", "pg_config"} & known.keys() and not any("profiling_name" in mapping(entry) for entry in given):
        raise BadFormat("no flight recorder dump: it has no entries")
    if rank is None:
        rank = integer(known.get("rank"))
    if rank is None:
        rank = rank_of(source)
    if rank is None:
        raise BadFormat("a flight recorder dump, but neither the dump nor its name has the rank")
    entries = [mapping(entry) for entry in given]
    collectives = list(map(_collective, entries))
    names = {_group_id(entry): call.group for entry, call in zip(entries, collectives, strict=True)}
    return RecorderDump(
        rank=rank,
        source=source,
        at=max((call.created for call in collectives if call.created is not None), default=None),
        groups=_groups(mapping(known.get("pg_config"))),
        status=_status(mapping(known.get("pg_status")), names),
        collectives=collectives,
    )


def rank_of(path: str) -> int | None:
    """The rank at the end of a dump's file name: ``comm_lib_trace_rank_3``, ``nccl_trace_rank_3``, ``fr_3.json``."""
    match = _RANK.search(path.rsplit("/", 1)[-1])
    return int(match.group(1)) if match is not None else None


def looks_like(head: bytes) -> bool:
    """Whether a file with this beginning may be a dump."""
    if _PICKLE.match(head):
        return any(word in head for word in (b"entries", b"pg_config", b"profiling_name", b"pg_status"))
    return head.lstrip()[:1] in (b"{", b"[") and any(w in head for w in (b'"pg_status"', b'"profiling_name"'))


def _document(data: bytes) -> object:
    if len(data) > LARGEST:
        raise BadFormat(f"larger than {LARGEST >> 20} MiB")
    if data.lstrip()[:1] in (b"{", b"["):
        return document(data)
    return pickled.load(data)


def _collective(entry: Loose) -> Collective:
    name = text(entry.get("profiling_name"), 200)
    op = name.rpartition(":")[2]
    p2p = entry.get("is_p2p") is True
    ends = _PEER.search(op) if p2p else None
    group = items(entry.get("process_group"), 2)
    state = text(entry.get("state"), 20)
    sequence = integer(entry.get("p2p_seq_id" if p2p else "collective_seq_id"))
    return Collective(
        group=text(group[0]) if group else _group_id(entry),
        group_description=text(group[1]) if len(group) > 1 else "",
        seq=-1 if sequence is None else sequence,
        op=op.split(" ", 1)[0],
        p2p=p2p,
        peer=int(ends.group(1)) if ends is not None and ends.group(1) != "?" else None,
        input_sizes=_sizes(entry.get("input_sizes")),
        input_dtypes=[text(dtype, 40) for dtype in items(entry.get("input_dtypes"), 64)],
        state=state,
        retired=entry.get("retired") is True,
        created=_time(entry, "time_created"),
        frames=[_frame(mapping(frame)) for frame in items(entry.get("frames"), FRAMES)],
        record=integer(entry.get("record_id")),
    )


def _group_id(entry: Loose) -> str:
    number = integer(entry.get("pg_id"))
    return "" if number is None else str(number)


def _sizes(value: object) -> list[list[int]]:
    sizes: list[list[int]] = []
    for shape in items(value, 64):
        known = [integer(size) for size in items(shape, 32)]
        sizes.append([size for size in known if size is not None])
    return sizes


def _time(entry: Loose, name: str) -> float | None:
    nanoseconds = integer(entry.get(f"{name}_ns"))
    return nanoseconds / 1e9 if nanoseconds else None


def _frame(frame: Loose) -> Frame:
    return Frame(text(frame.get("name"), 300), text(frame.get("filename"), 500), integer(frame.get("line")) or 0, False)


def _groups(config: Loose) -> dict[str, list[int]]:
    """Ranks of each group, by name; empty for gloo, which writes neither."""
    groups: dict[str, list[int]] = {}
    for key, value in list(config.items())[:4096]:
        known = mapping(value)
        ranks = known.get("ranks")
        members = [int(n) for n in re.findall(r"\d{1,8}", ranks)] if isinstance(ranks, str) else []
        if isinstance(ranks, list):
            members = [number for number in map(integer, ranks) if number is not None]
        name = text(known.get("name")) or text(key)
        if members and name:
            groups[name] = members
    return groups


def _status(status: Loose, names: dict[str, str]) -> dict[str, tuple[int | None, int | None]]:
    found = {}
    for key, value in list(status.items())[:4096]:
        number, known = str(key)[:200], mapping(value)
        enqueued, completed = (integer(known.get(f"last_{word}_collective")) for word in ("enqueued", "completed"))
        found[names.get(number, number)] = enqueued, completed
    return found
