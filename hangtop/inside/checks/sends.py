"""Sends and receives for ``check_calls``: each is held against what the other side posts, where the job waits for it.

A send or receive cannot be held before it is launched: two ranks may both send first, and receive then. So each leaves
at the store what it is, numbered by pair of ranks (and tag, where the backend goes by tags: NCCL does not). Whichever
side comes second compares before it launches; the first, when the job waits for it (``wait()``, and so in ``send`` and
``recv``), which would not come back before the other side has come either; what nobody waits for, at the end of the
context.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from hangtop.inside.checks.store_queries import PAUSES, StoreQueries
from hangtop.inside.checks.whereabouts import place_in_code

SENDS = ("send", "recv_", "recv_any_source_")
BATCH = "batch_isend_irecv"
Stop = Callable[[str, List[str], List[int], Tuple[int, ...]], None]
"""Given summary, evidence, culprits and the ranks of the group: publishes and raises."""


class Post(NamedTuple):
    """One send or receive of this rank whose other side has not been seen yet."""

    key: str
    """Of the other side's."""
    peer: int
    """Global; -1 for a receive from anybody."""
    mine: Dict[str, Any]
    ranks: Tuple[int, ...]
    anybody: str
    """Key that is there when the peer has received from anybody: what it takes next is not known then."""
    work: Any = None
    """Kept, so that the very object comes back when the job waits for it."""


class Sends:
    """Those of this rank."""

    def __init__(self, store: StoreQueries, place: str, me: int, seconds: float, stop: Stop) -> None:
        self._store = store
        self._place = place
        self._me = me
        self._seconds = seconds
        self._stop = stop
        self._counts: Dict[str, int] = {}
        self._open: Dict[int, Post] = {}
        self._undo: Optional[Callable[[], None]] = None
        self.compared = 0

    def begin(self) -> None:
        """From now on a wait for one of them is a wait for the other side first."""
        from torch._C._distributed_c10d import Work

        waits, sends = Work.wait, self

        def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
            """Torch's own, once the other side has come."""
            post = sends._open.pop(id(work), None)
            if post is not None:
                sends.settle(post)
            return waits(work, *args, **kwargs)

        def undo() -> None:
            setattr(Work, "wait", waits)  # noqa: B010 - a method, which may not be assigned to

        setattr(Work, "wait", wait)  # noqa: B010
        self._undo = undo

    def end(self, *, settle: bool) -> None:
        """Give torch its own wait back; with ``settle`` hold what is still open against the other sides."""
        if self._undo is not None:
            self._undo()
        posts, self._open = list(self._open.values()), {}
        if settle:
            for post in posts:
                self.settle(post)

    def post(self, name: str, group: Any, ranks: Tuple[int, ...], args: Sequence[Any]) -> Optional[Post]:
        """Leave one at the store before it is launched; None where nothing is to be compared of it later."""
        tensors, numbers = args[0], [value for value in args if type(value) is int]
        pair = "%sp2p/%s/" % (self._place, "-".join(map(str, ranks)))
        self._store.until = time.monotonic() + self._seconds + 5.0
        if name == SENDS[2]:
            self._store.set("%sany/%d" % (pair, self._me), b"1")
            return None
        peer, tag = ranks[numbers[0]], numbers[1] if len(numbers) > 1 else 0
        tagged = "nccl" not in str(getattr(group, "name", str)()).lower()
        sends = name == SENDS[0]
        way = "%d-%d" % ((self._me, peer) if sends else (peer, self._me))
        channel = "%s%s/%s/" % (pair, way, tag if tagged else "")
        number = self._counts[channel + name] = self._counts.get(channel + name, 0) + 1
        mine = {
            "call": "%s %s %s rank %d%s%s" % (
                "send" if sends else "recv", " ".join(map(_shown, tensors)), "to" if sends else "from", peer,
                ", tag %d" % tag if tag else "", ", in a batch" if _batched() else "",
            ),
            "where": place_in_code(),
            "sizes": [[str(tensor.dtype), tensor.numel()] for tensor in tensors],
        }  # fmt: skip
        ours, theirs = ("s", "r") if sends else ("r", "s")
        said = json.dumps(mine).encode()
        self._store.set("%s%d/%s" % (channel, number, ours), said)
        told = "%s at %s, number %d of this pair" % (mine["call"], mine["where"], number)
        self._store.set("hangtop/calls/last/%d" % self._me, told.encode())
        anybody = "%sany/%d" % (pair, peer if sends else self._me)
        left = Post("%s%d/%s" % (channel, number, theirs), peer, mine, ranks, anybody)
        if not self._store.present([left.key]):
            return left
        self._compare(left)
        return None

    def launched(self, post: Post, result: Any) -> None:
        """Torch gave this for one that was left at the store."""
        from torch._C._distributed_c10d import Work

        work = Work.unbox(result)
        self._open[id(work)] = post._replace(work=work)

    def settle(self, post: Post) -> None:
        """Wait until the other side has come, ``seconds`` at most, and compare."""
        store, until = self._store, time.monotonic() + self._seconds
        store.until = until + 5.0
        pause = PAUSES[0]
        while not store.present([post.key]):
            if store.present([post.anybody]):
                return
            if time.monotonic() >= until:
                self._absent(post)
                return
            time.sleep(pause)
            pause = min(2 * pause, PAUSES[1])
        self._compare(post)

    def _compare(self, post: Post) -> None:
        other = json.loads(self._store.get(post.key))
        if other["sizes"] != post.mine["sizes"]:
            culprits = sorted((self._me, post.peer))
            lines = [_line(self._me, post.mine), _line(post.peer, other)]
            self._stop("ranks %d and %d send and receive different things" % tuple(culprits), lines, culprits,
                       post.ranks)  # fmt: skip
        self.compared += 1

    def _absent(self, post: Post) -> None:
        key = "hangtop/calls/last/%d" % post.peer
        last = self._store.get(key).decode() if self._store.present([key]) else "nothing so far"
        does = "receive" if post.mine["call"].startswith("send") else "send"
        lines = [_line(self._me, post.mine),
                 "rank %d did not come within %g s; its last call: %s" % (post.peer, self._seconds, last)]  # fmt: skip
        self._stop("rank %d did not %s what rank %d waits for: %s" % (post.peer, does, self._me, post.mine["call"]),
                   lines, [post.peer], post.ranks)  # fmt: skip


def _line(rank: int, said: Dict[str, Any]) -> str:
    return "rank %d: %s at %s" % (rank, said["call"], said["where"])


def _shown(tensor: Any) -> str:
    return "%s%s" % (str(tensor.dtype).rpartition(".")[2], list(tensor.shape))


def _batched() -> bool:
    frame = sys._getframe(1)  # noqa: SLF001 - the documented way to one's own frames
    while frame is not None:
        if frame.f_code.co_name == BATCH:
            return True
        if frame.f_back is None:
            break
        frame = frame.f_back
    return False
