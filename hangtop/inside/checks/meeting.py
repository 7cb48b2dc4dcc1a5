"""Where the ranks of a group meet for a check: at the job's store, so that who does not come is named, not waited for.

The lowest rank of the group leads. Each round every rank leaves what it has to say, the leader reads all of it and
either asks for more or concludes; the conclusion is the same for all. Where the leader itself does not come, the others
name it by themselves once the time is up.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, TypeVar, Union

from collectors.samples.page import PHASE_NAMES
from hangtop.inside.checks.desk import Desk, Unreachable
from hangtop.inside.own_rank import distributed_now
from hangtop.inside.results import CheckResult, Noted, publish
from hangtop.inside.steps import telling

GRACE = 2.0
"""Seconds beyond the deadline in which the others wait for the leader's word."""
NAMED = 8
"""Absent ranks of whom it is said where they were."""
ROUNDS = 16

Said = Dict[str, Any]
"""What one rank says in one round; JSON."""
Calls = TypeVar("Calls", bound=Callable[..., CheckResult])


class More(NamedTuple):
    """The leader wants to know more of everybody."""

    request: Said


class Conclusion(NamedTuple):
    """What the leader concludes."""

    summary: str
    findings: Sequence[Noted] = ()


Judge = Callable[[int, Dict[int, Said]], Union[More, Conclusion]]
"""Given the number of the round and what each rank said; the leader alone calls it."""


class MeetingGroup(NamedTuple):
    """The ranks that meet."""

    ranks: Tuple[int, ...]
    """Global, in order."""
    me: int

    @property
    def leader(self) -> int:
        """Who leads."""
        return self.ranks[0]


_counts: Dict[Tuple[str, Tuple[int, ...]], int] = {}


def group_of(group: Any = None) -> MeetingGroup:
    """Global ranks of a process group of the job, or of all; raises :class:`Unreachable` where there is none."""
    distributed = distributed_now()
    if distributed is None:
        raise Unreachable("there is no process group: call it after init_process_group()")
    me = distributed.get_rank()
    if group is None:
        return MeetingGroup(tuple(range(distributed.get_world_size())), me)
    ranks = tuple(sorted(distributed.get_process_group_ranks(group)))
    if me not in ranks:
        raise Unreachable("rank %d is not in this group" % me)
    return MeetingGroup(ranks, me)


def store_of_job() -> Any:
    """The store with which the job's process group began, on a connection of our own where it can have several."""
    from torch.distributed import distributed_c10d as c10d

    store = c10d._get_default_store()  # noqa: SLF001 - torch has no public way to it
    clone = getattr(store, "clone", None)
    if clone is None:
        return store
    try:
        return clone()
    except (RuntimeError, NotImplementedError):
        return store  # of a kind that cannot


def confer(
    check: str,
    group: MeetingGroup,
    seconds: float,
    first: Said,
    judge: Judge,
    reply: Optional[Callable[[Said], Said]] = None,
    number: int = 0,
) -> CheckResult:
    """Meet, round by round, and give what the leader concluded; it is published, too.

    ``first`` is what this rank says in the first round, ``reply`` makes of a request what it says in the next.
    ``number`` is that of a question from outside, by which its ranks find one another; in code the calls are counted.
    """
    began = time.monotonic()
    if not number:
        key = check, group.ranks
        _counts[key] = _counts.get(key, 0) + 1
    meeting = Meeting(check, group, began + seconds, number)
    try:
        conclusion = meeting.run(first, judge, reply)
    except Unreachable as error:
        conclusion = Conclusion(str(error), [Noted("check_incomplete", "warning", "check %s: %s" % (check, error))])
    finally:
        meeting.desk.close()
    result = CheckResult(
        check, group.ranks, conclusion.summary, conclusion.findings, round(time.monotonic() - began, 3), number
    )
    return publish(result, speaks=group.me == group.leader)


class Meeting:
    """One check among one group."""

    def __init__(self, check: str, group: MeetingGroup, until: float, number: int) -> None:
        self.check = check
        self.group = group
        self.until = until
        self.desk = Desk(store_of_job(), until + 2 * GRACE)
        count = "asked%d" % number if number else "%d" % _counts[check, group.ranks]
        ranks = "%d-%d-%08x" % (group.ranks[0], len(group.ranks), _mixed(group.ranks))
        self._at = "hangtop/%s/%s/%s" % (check, ranks, count)

    def run(self, first: Said, judge: Judge, reply: Optional[Callable[[Said], Said]]) -> Conclusion:
        """Go through the rounds."""
        said = {"where": place_in_code(), **position(), "said": first}
        for round_ in range(ROUNDS):
            self.desk.set(self._key(round_, self.group.me), json.dumps(said).encode())
            if round_ == 0:
                self.desk.set("hangtop/last/%d" % self.group.me, json.dumps([self.check, said["where"]]).encode())
            word = self._lead(round_, judge) if self.group.me == self.group.leader else self._follow(round_)
            if isinstance(word, Conclusion):
                return word
            said = {"said": reply(word.request) if reply is not None else {}}
        return Conclusion("gave up after %d rounds" % ROUNDS)

    def _key(self, round_: int, rank: int) -> str:
        return "%s/%d/%d" % (self._at, round_, rank)

    def _lead(self, round_: int, judge: Judge) -> Union[More, Conclusion]:
        keys = [self._key(round_, rank) for rank in self.group.ranks]
        all_came = self.desk.wait(keys, self.until)
        came = [rank for rank in self.group.ranks if all_came or self.desk.present([self._key(round_, rank)])]
        rows = {rank: json.loads(self.desk.get(self._key(round_, rank))) for rank in came}
        word = judge(round_, {rank: row["said"] for rank, row in rows.items()})
        absent = [rank for rank in self.group.ranks if rank not in rows]
        if absent:
            concluded = word if isinstance(word, Conclusion) else Conclusion("could not be finished")
            word = Conclusion(
                "%s; %s" % (_did_not_come(absent), concluded.summary), [self._absence(absent), *concluded.findings]
            )
        self.desk.set("%s/%d/word" % (self._at, round_), _encode(word))
        self.desk.delete(self._key(round_, rank) for rank in came)
        return word

    def _follow(self, round_: int) -> Union[More, Conclusion]:
        word = "%s/%d/word" % (self._at, round_)
        if self.desk.wait([word], self.until + GRACE):
            return _decode(self.desk.get(word))
        absent = [rank for rank in self.group.ranks if not self.desk.present([self._key(round_, rank)])]
        if not absent:
            absent = [self.group.leader]  # it came, and went no further
        return Conclusion(_did_not_come(absent), [self._absence(absent)])

    def _absence(self, absent: List[int]) -> Noted:
        lines = []
        for rank in absent[:NAMED]:
            key = "hangtop/last/%d" % rank
            if self.desk.present([key]):
                check, where = json.loads(self.desk.get(key))
                lines.append("rank %d was last seen in check %s at %s" % (rank, check, where))
            else:
                lines.append("rank %d has come to no check so far" % rank)
        return Noted(
            "check_incomplete", "warning", "check %s at %s: %s" % (self.check, place_in_code(), _did_not_come(absent)),
            absent, lines,
            "Look at where these ranks are (their stacks, their step and phase): a check must be reached by all ranks "
            "of its group, or by none.",
        )  # fmt: skip


def harmless(check: str) -> Callable[[Calls], Calls]:
    """For the functions that a script calls: whatever goes wrong in one becomes its result, and is not raised."""

    def around(call: Calls) -> Calls:
        @functools.wraps(call)
        def safe(*arguments: Any, **named: Any) -> CheckResult:
            try:
                return call(*arguments, **named)
            except Exception as error:  # noqa: BLE001 - it must not reach the job
                why = str(error) if isinstance(error, Unreachable) else "%s: %s" % (type(error).__name__, error)
                summary = "check %s could not be made: %s" % (check, why.split("\n")[0])
                return publish(
                    CheckResult(check, (), summary, [Noted("check_incomplete", "warning", summary)]), speaks=True
                )

        return safe  # type: ignore[return-value]

    return around


def place_in_code() -> str:
    """``train.py:88``: the innermost line that is neither ours nor torch's."""
    frame = sys._getframe(1)  # noqa: SLF001 - the documented way to one's own frames
    while frame is not None:
        file = frame.f_code.co_filename
        if not any(part in file for part in ("/hangtop/inside/", "/torch/", "contextlib.py", "<frozen")):
            return "%s:%d" % (os.path.basename(file), frame.f_lineno)
        if frame.f_back is None:
            break
        frame = frame.f_back
    return "?"


def position() -> Said:
    """Where this rank is: host, process, step and phase."""
    page = telling.page
    return {
        "host": os.uname().nodename,
        "pid": os.getpid(),
        "step": None if page is None else page.last_step,
        "phase": "" if page is None else PHASE_NAMES[page.phase_now],
    }


def ranks_text(ranks: Sequence[int]) -> str:
    """``rank 3``, ``ranks 0-2,5``."""
    parts: List[str] = []
    ordered = sorted(set(ranks))
    start = 0
    for place, rank in enumerate(ordered):
        if place + 1 < len(ordered) and ordered[place + 1] == rank + 1:
            continue
        parts.append(str(rank) if ordered[start] == rank else "%d-%d" % (ordered[start], rank))
        start = place + 1
    return ("rank " if len(ordered) == 1 else "ranks ") + ",".join(parts)


def _did_not_come(absent: List[int]) -> str:
    return "%s did not come in time" % ranks_text(absent)


def _mixed(ranks: Tuple[int, ...]) -> int:
    mixed = 0
    for rank in ranks:
        mixed = (mixed * 1_000_003 + rank + 1) & 0xFFFFFFFF
    return mixed


def _encode(word: Union[More, Conclusion]) -> bytes:
    if isinstance(word, More):
        return json.dumps({"more": word.request}).encode()
    return json.dumps({"summary": word.summary, "findings": [finding.row() for finding in word.findings]}).encode()


def _decode(data: bytes) -> Union[More, Conclusion]:
    word = json.loads(data)
    if "more" in word:
        return More(word["more"])
    return Conclusion(word["summary"], [Noted(**row) for row in word["findings"]])
