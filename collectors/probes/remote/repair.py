"""Repairs on one node: finds orphans and stopped ranks, signals processes.

An orphan carries a rank in its environment and belongs to a run whose launcher is gone: the chain of its parents ends
at an init. A living launcher, or any other living parent (a shell, a scheduler's step), makes it none. Ranks of the
running job are orphans only when their launcher is gone and other ranks of their run are missing here.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Set

from collectors.node import redact, watchdog
from collectors.node.blocking import GuardedReader
from collectors.node.files import read_or_none
from collectors.node.processes.commands import LAUNCHERS, program
from collectors.node.processes.environ import RankEnvironment
from collectors.node.processes.procfs import CLOCK_TICKS, Stat, boot_time, parse_status, read_stat, split_zeros
from collectors.node.processes.sockets import LISTEN, TcpSocket, held_sockets, tcp_sockets
from collectors.node.ranks.facts import users
from collectors.node.ranks.search import Adopters, Search
from collectors.node.wire import say

YOUNG = 60.0
"""Seconds for which a run of which ranks are missing may still be starting."""
SETTLE, STEP = 0.5, 0.02
"""Seconds within which a signal has its effect, and between two looks at that."""


class RepairCandidate(NamedTuple):
    """A process that can be helped: an orphan that can be ended, or a stopped one that can be continued."""

    what: str
    """``orphan``, ``stopped``, or ``end`` in the line that ends the answer."""
    pid: int
    start_ticks: int
    """Clock ticks after boot at which it started: with the pid, its identity."""
    started: float
    """The same, by the node's wall clock."""
    rank: int
    user: str
    run_id: str
    command: str
    state: str
    ports: List[int]
    """TCP ports that it listens on."""
    why: str


class Signalled(NamedTuple):
    """What became of one process that a signal was meant for."""

    pid: int
    outcome: str
    """``terminated``, ``killed``, ``continued``; ``gone`` and ``reused`` (its pid is another's now: nothing was sent);
    ``denied``, ``survived``; ``end`` in the line that ends the answer."""
    text: str


END = RepairCandidate("end", 0, 0, 0.0, 0, "", "", "", "", [], "")


# --- who can be helped -------------------------------------------------------------------------------------------


class Ranked(NamedTuple):
    """A process that carries a rank."""

    stat: Stat
    env: RankEnvironment
    words: List[str]
    adopted: bool
    """The process that started it is gone."""


def ranked(proc: str) -> Dict[int, Ranked]:
    """Every process of the node that carries a rank."""
    reader, adopters = GuardedReader(), Adopters(proc)
    present = {int(name) for name in os.listdir(proc) if name.isdigit()} - {os.getpid()}
    found: Dict[int, Ranked] = {}
    for one in Search(proc, reader, nameless=False).find(present, set()):
        stat = read_stat(proc, one.pid)
        if stat is not None and not stat.has_ended:
            words = split_zeros(read_or_none("%s/%d/cmdline" % (proc, one.pid)) or b"")
            found[one.pid] = Ranked(stat, one.env, words, adopters.adopted(stat))
    return found


def candidates(proc: str, keep: Set[int]) -> Iterator[RepairCandidate]:
    """Orphans, then stopped processes of the running job; ``keep`` are the pids of its ranks."""
    there, booted = ranked(proc), boot_time()
    chains = {pid: _chain(there, pid) for pid in there}
    kept = {pid for pid, chain in chains.items() if keep.intersection(chain)}
    kept.update(above for pid in kept & keep for above in chains[pid])
    orphans = {pid: why for pid in sorted(there) for why in [_orphaned(there, chains[pid], kept, booted)] if why}
    for pid, why in orphans.items():
        yield _candidate("orphan", pid, there[pid], booted, why, proc)
    for pid in sorted(kept - orphans.keys()):
        if there[pid].stat.state == "T":
            yield _candidate("stopped", pid, there[pid], booted, "a stop signal holds it (state T)", proc)


def _chain(there: Dict[int, Ranked], pid: int) -> List[int]:
    """The process and its ancestors, as far as they carry a rank."""
    chain = [pid]
    while there[chain[-1]].stat.parent in there and there[chain[-1]].stat.parent not in chain:
        chain.append(there[chain[-1]].stat.parent)
    return chain


def _orphaned(there: Dict[int, Ranked], chain: List[int], kept: Set[int], booted: float) -> str:
    """Why the first process of a chain is an orphan; empty for one that is none."""
    if not there[chain[-1]].adopted or any(program(there[pid].words) in LAUNCHERS for pid in chain):
        return ""
    env = there[chain[0]].env
    run = {pid: one for pid, one in there.items() if one.env.job == env.job}
    left = len({one.env.rank for one in run.values()})
    youngest = booted + max(one.stat.start_ticks for one in run.values()) / CLOCK_TICKS
    if env.local_world_size is not None and left < env.local_world_size and time.time() - youngest > YOUNG:
        return "%d of the %d ranks that its run had here are left" % (left, env.local_world_size)
    # a helper that detached itself from a living rank goes with it
    goes_with = any(pid in kept and one.env.rank == env.rank for pid, one in run.items())
    return "" if goes_with or env.launcher == "env" else "its launcher (%s) is gone" % env.launcher


def _candidate(what: str, pid: int, one: Ranked, booted: float, why: str, proc: str) -> RepairCandidate:
    status = parse_status(read_or_none("%s/%d/status" % (proc, pid)) or b"", pid)
    uid = status.uid if status is not None else -1
    held = held_sockets(pid, proc)
    return RepairCandidate(
        what=what,
        pid=pid,
        start_ticks=one.stat.start_ticks,
        started=round(booted + one.stat.start_ticks / CLOCK_TICKS, 2),
        rank=one.env.rank,
        user=users().get(uid, str(uid)),
        run_id=one.env.run_id,
        command=redact.command(one.words, 256) or one.stat.comm,
        state=one.stat.state,
        ports=sorted({one.port for one in _listeners(pid, proc) if one.inode in held}),
        why=why,
    )


def _listeners(pid: int, proc: str) -> List[TcpSocket]:
    try:
        return list(tcp_sockets(pid, 1 << LISTEN, proc=proc))
    except OSError:  # its network may not be entered
        return []


# --- signals -----------------------------------------------------------------------------------------------------


class SignalTarget:
    """One process, known by pid and start time.

    With a pidfd (Linux 5.3, Python 3.9) the check of the start time holds for ever: the descriptor is opened first.
    Without one the start time is read again right before every signal.
    """

    def __init__(self, pid: int, start_ticks: int) -> None:
        self.pid = pid
        self._start_ticks = start_ticks
        try:
            self._descriptor: Optional[int] = getattr(os, "pidfd_open")(pid)  # noqa: B009 - not there in Python 3.8
        except (AttributeError, OSError):
            self._descriptor = None

    def state(self) -> str:
        """Letter of /proc/PID/stat; ``gone``, or ``reused`` when the pid is another process's now."""
        stat = read_stat("/proc", self.pid)
        if stat is None or stat.has_ended:
            return "gone"
        return stat.state if stat.start_ticks == self._start_ticks else "reused"

    def send(self, number: signal.Signals) -> Optional[Signalled]:
        """Signal it; the answer where that failed."""
        now = self.state()
        if now == "reused":
            return Signalled(self.pid, now, "its pid belongs to another process now: nothing was sent")
        try:
            if now != "gone" and self._descriptor is not None:
                getattr(signal, "pidfd_send_signal")(self._descriptor, number)  # noqa: B009 - not there in Python 3.8
            elif now != "gone":
                os.kill(self.pid, number)
        except ProcessLookupError:
            now = "gone"
        except OSError as error:
            return Signalled(self.pid, "denied", "%s: %s" % (number.name, os.strerror(error.errno or 0)))
        return Signalled(self.pid, now, "it had ended already") if now == "gone" else None

    def wait_while(self, pending: Callable[[str], bool], seconds: float) -> str:
        """Wait while its state is pending, at most so long; the state then."""
        until = time.monotonic() + seconds
        while pending(self.state()) and time.monotonic() < until:
            time.sleep(STEP)
        return self.state()


def _alive(state: str) -> bool:
    return state not in ("gone", "reused")


def _stopped(state: str) -> bool:
    return state == "T"


def end_all(targets: List[SignalTarget], grace: float) -> List[Signalled]:
    """SIGTERM to all; what is there after ``grace`` seconds gets SIGKILL."""
    answers = {target.pid: target.send(signal.SIGTERM) for target in targets}
    until = time.monotonic() + grace
    for target in targets:
        if answers[target.pid] is None:
            if not _alive(target.wait_while(_alive, until - time.monotonic())):
                answers[target.pid] = Signalled(target.pid, "terminated", "ended by SIGTERM")
            elif (refused := target.send(signal.SIGKILL)) is not None:
                answers[target.pid] = refused
            elif _alive(state := target.wait_while(_alive, SETTLE)):
                why = "SIGKILL was sent; the kernel holds it (state %s)" % state
                answers[target.pid] = Signalled(target.pid, "survived", why)
            else:
                answers[target.pid] = Signalled(target.pid, "killed", "ended by SIGKILL, %g s after SIGTERM" % grace)
    return [answer for answer in answers.values() if answer is not None]


def continue_all(targets: List[SignalTarget]) -> List[Signalled]:
    """SIGCONT to all, and whether they go on."""
    answers = []
    for target in targets:
        answer = target.send(signal.SIGCONT)
        if answer is None and _stopped(state := target.wait_while(_stopped, SETTLE)):
            answer = Signalled(target.pid, "survived", "SIGCONT was sent and it is still stopped")
        answers.append(answer or Signalled(target.pid, "continued", "it goes on (state %s)" % state))
    return answers


@watchdog.program
def main(arguments: Dict[str, object]) -> None:
    """Entry. ``keep``: pids of the job's ranks, to look; ``signal``: ``TERM`` or ``CONT``, to ``targets``.

    ``targets`` are [pid, start ticks] pairs, ``grace`` the seconds between SIGTERM and SIGKILL.
    """
    keep, rows = arguments.get("keep"), arguments.get("targets")
    if isinstance(keep, list):
        say(*candidates("/proc", {int(str(pid)) for pid in keep}), END)
    elif isinstance(rows, list):
        targets = [SignalTarget(int(str(pid)), int(str(ticks))) for pid, ticks in rows]
        grace = float(str(arguments.get("grace", 0.0)))
        told = continue_all(targets) if arguments.get("signal") == "CONT" else end_all(targets, grace)
        say(*told, Signalled(0, "end", ""))
