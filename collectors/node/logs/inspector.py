"""Files of NCCL's Inspector plugin (2.28 and later): how fast each operation was, summed up by kind, size and peer.

Format: ``plugins/profiler/inspector`` of NVIDIA/nccl (``ext-profiler/inspector`` at first), output v4.0 to v4.2. A line
is a JSON object for one completed operation: ``header`` (id of the communicator, comm_name, rank, n_ranks, nnodes),
``metadata`` (dump_timestamp_us, hostname, pid) and ``coll_perf`` (coll, coll_sn, coll_msg_size_bytes,
coll_exec_time_us, coll_busbw_gbs) or ``p2p_perf``, whose names begin with ``p2p_`` and which has a ``p2p_peer``. RCCL's
copy of it writes the same. Lines with ``dump_stats`` or of proxies tell no speed.
"""

from __future__ import annotations

import json
from collections import deque
from typing import Any, Deque, Dict, Iterator, List, NamedTuple, Optional, Tuple

from collectors.samples.logs import CommSpeed

MARK = b'_perf":{'
"""What a line of an operation has; the plugin writes no spaces, other writers of the format may."""
MARKS = (MARK, b'_perf": {')
KEPT = 64
"""Operations of one kind whose speed is remembered."""
KINDS = 12
"""Kinds of one process that are told: those that moved most."""
LEAST = 0.001
"""GB/s: what would be rounded to nothing."""
LINES = 400
"""Lines of one chunk that are read; of more, every n-th."""
LONGEST = 65536
"""Bytes of a line; a verbose one has a list of events for each channel."""
_MOST = 1 << 53
"""Larger numbers are none."""


class _SpeedKind(NamedTuple):
    comm: str
    group_rank: int
    op: str
    peer: Optional[int]
    bytes: int
    pid: int


class _SpeedSeen:
    """Operations of one kind."""

    __slots__ = ("at", "count", "host", "last", "name", "nodes", "rates", "size")

    def __init__(self) -> None:
        self.rates: Deque[float] = deque(maxlen=KEPT)
        self.count = self.last = self.size = self.nodes = 0
        self.host = self.name = ""
        self.at: Optional[float] = None


class Speeds:
    """Sums up the lines of one file."""

    def __init__(self, source: str) -> None:
        self.source = source
        self._kinds: Dict[_SpeedKind, _SpeedSeen] = {}

    def take(self, text: bytes) -> None:
        """Read whole lines; those of another format are left alone."""
        if not any(mark in text for mark in MARKS):
            return
        lines = [line for line in text.split(b"\n") if any(mark in line for mark in MARKS)]
        for line in lines[:: len(lines) // LINES + 1]:
            if len(line) <= LONGEST:
                self._line(line)

    def told(self) -> Iterator[CommSpeed]:
        """How fast each kind of operation was lately."""
        moved = sorted(self._kinds.items(), key=lambda item: -item[0].bytes * item[1].count)
        for kind, seen in moved[:KINDS]:
            rates = sorted(seen.rates)
            half = len(rates) // 2
            median = (rates[half] + rates[-half - 1]) / 2
            yield CommSpeed(
                kind.comm, seen.name, kind.group_rank, seen.size, seen.nodes, None, seen.host, kind.pid, kind.op,
                kind.peer, kind.bytes, seen.count, seen.last, round(median, 3),
                round(rates[len(rates) // 4], 3), round(rates[(3 * len(rates)) // 4], 3), seen.at, self.source,
            )  # fmt: skip

    def _line(self, line: bytes) -> None:
        try:
            said = json.loads(line)
        except (ValueError, RecursionError):
            return  # a torn line, or a program's own text that has the words
        if not isinstance(said, dict):
            return
        header, metadata = said.get("header"), said.get("metadata")
        word = "coll" if isinstance(said.get("coll_perf"), dict) else "p2p"
        perf = said.get(word + "_perf")
        if not (isinstance(header, dict) and isinstance(metadata, dict) and isinstance(perf, dict)):
            return
        rate = perf.get(word + "_busbw_gbs")
        numbers = [_whole(header.get("rank")), _whole(header.get("n_ranks")), _whole(metadata.get("pid"))]
        numbers += [_whole(perf.get(word + "_msg_size_bytes")), _whole(perf.get(word + "_sn"))]
        if not isinstance(rate, (int, float)) or not LEAST <= rate < _MOST or None in numbers:
            return
        rank, size, pid, message, number = [value or 0 for value in numbers]
        if not (0 <= rank < size <= 1 << 24 and pid <= 1 << 32):
            return
        peer = _whole(perf.get("p2p_peer")) if word == "p2p" else None
        kind = _SpeedKind(_text(header.get("id")), rank, _text(perf.get(word)), peer, message, pid)
        if kind not in self._kinds and len(self._kinds) >= 8 * KINDS:
            self._forget()
        seen = self._kinds.setdefault(kind, _SpeedSeen())
        seen.rates.append(float(rate))
        seen.count, seen.last, seen.size = seen.count + 1, number, size
        seen.nodes, seen.host = _whole(header.get("nnodes")) or 0, _text(metadata.get("hostname")).partition(".")[0]
        seen.name = _text(header.get("comm_name"))
        stamp = _whole(metadata.get("dump_timestamp_us"))
        seen.at = stamp / 1e6 if stamp else None

    def _forget(self) -> None:
        """Make room: a program whose messages are of ever new sizes would fill the memory."""
        least: List[Tuple[int, _SpeedKind]] = sorted(
            ((seen.count * kind.bytes, kind) for kind, seen in self._kinds.items()), key=lambda pair: pair[0]
        )
        for _, kind in least[: 4 * KINDS]:
            del self._kinds[kind]


def _whole(value: Any) -> Optional[int]:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST else None


def _text(value: Any) -> str:
    return value[:200] if isinstance(value, str) else ""
