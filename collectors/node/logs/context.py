"""What a reader remembers of a log: records that are open, and names that the log gives once for what follows."""

from __future__ import annotations

from typing import Dict, Optional

from collectors.node import late_re as re
from collectors.node.logs import attribution
from collectors.node.logs.blocks import Block
from collectors.node.logs.elastic_report import SCRIPT
from collectors.node.logs.prefixes import Line, LogWriter

STEMS = (b" FAILED", b"-- Process ", b"Error Snippet", b"Exception in thread ", b" world_rank=", b" ray::")
"""Literals of which any line that gives such a name has one."""
_SPAWNED = re.compile(
    r"(?:-- Process|^\[Rank) (\d{1,6}) (?:terminated with(?: the following error:|\s{0,4}$)|Error Snippet\]:)"
)
_THREAD = re.compile(r"Exception in thread ([^\s:]+)")
_WORKER = re.compile(r"\bip=(?P<ip>[\w.:-]{1,60}), pid=(?P<pid>\d{1,9})\) world_rank=(?P<rank>\d{1,6})\b")
"""``- (ip=10.0.0.7, pid=4711) world_rank=3, local_rank=1, node_rank=0``, when Ray Train started a group of workers."""
_MOST = 1 << 16
"""Names of a kind that are kept."""


class LogContext:
    """What the lines of one log were told to be about."""

    def __init__(self) -> None:
        self.script = ""
        """Of the report of torchelastic that is under way."""
        self._announced: Dict[LogWriter, int] = {}
        self._threads: Dict[LogWriter, str] = {}
        self._host = ("", LogWriter(), 0)
        """Where Ray's worker ran that a line told of, and which line that was."""
        self._workers: Dict[int, Dict[str, int]] = {}

    def take(self, record: Line) -> None:
        """Read one line that has one of :data:`STEMS`."""
        text = record.text
        spawned, thread, script = (pattern.search(text) for pattern in (_SPAWNED, _THREAD, SCRIPT))
        if spawned is not None and len(self._announced) < _MOST:
            self._announced[record.stream] = int(spawned.group(1))
        if thread is not None and len(self._threads) < _MOST:
            self._threads[record.stream] = thread.group(1)
        ran = attribution.of_ray(text) if "ray::" in text else ""
        if ran:
            self._host = (ran, record.stream, record.number)
        if script is not None:
            self.script = script.group("script")
        worker = _WORKER.search(text)
        if worker is not None and len(self._workers) < _MOST:
            self._workers.setdefault(int(worker.group("pid")), {})[worker.group("ip")] = int(worker.group("rank"))

    def announced(self, stream: LogWriter) -> Optional[int]:
        """The rank that this stream said the next record is about; asked once. None where its lines bear one."""
        return self._announced.pop(stream, None) if stream.rank is None else None

    def host(self, begun: Line) -> str:
        """Where Ray's worker ran that a record is about, as the line right before it told; else empty."""
        host, stream, number = self._host
        return host if stream == begun.stream and number == begun.number - 1 else ""

    def thread(self, stream: LogWriter) -> str:
        """The thread that this stream said the next record is about; asked once."""
        return self._threads.pop(stream, "")

    def worker(self, pid: int, host: str) -> Optional[int]:
        """The rank of a worker; of those of several hosts with one pid, only where the host tells."""
        known = self._workers.get(pid, {})
        if host in known or len(known) != 1:
            return known.get(host)
        return next(iter(known.values()))


class OpenRecord:
    """A record that is still open, and where it began."""

    __slots__ = (
        "after", "block", "ignored", "known", "line", "logged", "mild", "quiet_from", "ran_at", "read_at", "seen",
    )  # fmt: skip

    def __init__(self, block: Block, begun: Line, after: Optional[float], read_at: Optional[float], seen: int) -> None:
        self.block = block
        self.line = begun
        self.after = after
        self.read_at = read_at
        self.seen = seen
        self.known = -1
        """``seen`` when it was last asked for how long nothing had come."""
        self.quiet_from = 0.0
        self.logged = self.mild = self.ignored = False
        """A logger's line introduced it; that was a warning, or told of another try; Python said that it ignores it."""
        self.ran_at = ""
        """Where Ray's worker ran, as the line before it told."""
