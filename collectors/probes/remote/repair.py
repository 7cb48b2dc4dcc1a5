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
from collectors.node.files import link, read_or_none
from collectors.node.processes.procfs import CLOCK_TICKS, boot_time, parse_status, read_stat, split_zeros
from collectors.node.processes.sockets import LISTEN, TcpSocket, held_sockets, tcp_sockets
from collectors.node.ranks.facts import users
from collectors.node.ranks.process_tree import FamilyMember, ProcessRole, classify_tree
from collectors.node.ranks.search import Adopters, Search
from collectors.node.say import say_all

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
    role: str
    """``rank``, ``helper``, ``wrapper`` or ``stray`` (a helper whose rank is gone)."""
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


END = RepairCandidate("end", 0, 0, 0.0, 0, "", "", "", "", "", [], "")


# --- who can be helped -------------------------------------------------------------------------------------------


class RankProcesses:
    """Every process of the node that carries a rank, with its role."""

    def __init__(self, proc: str, keep: Set[int]) -> None:
        """``keep`` are the pids of the running job's ranks."""
        self._proc = proc
        self._keep = keep
        self._booted = boot_time()
        self._states: Dict[int, str] = {}
        self.members = self._members()
        self.roles: Dict[int, ProcessRole] = classify_tree(self.members)

    def _members(self) -> Dict[int, FamilyMember]:
        reader, adopters = GuardedReader(), Adopters(self._proc)
        present = {int(name) for name in os.listdir(self._proc) if name.isdigit()} - {os.getpid()}
        members: Dict[int, FamilyMember] = {}
        for one in Search(self._proc, reader, nameless=False).find(present, set()):
            stat = read_stat(self._proc, one.pid)
            if stat is None or stat.has_ended:
                continue
            path = "%s/%d/cmdline" % (self._proc, one.pid)
            answer = reader.read_all([path]).get(path)
            words = split_zeros(answer) if isinstance(answer, bytes) else []
            executable = link("%s/%d/exe" % (self._proc, one.pid))
            self._states[one.pid] = stat.state
            members[one.pid] = FamilyMember(
                one.pid, stat.parent, stat.start_ticks, one.env, words, stat.comm, executable, adopters.adopted(stat)
            )  # fmt: skip
        return members

    def candidates(self) -> Iterator[RepairCandidate]:
        """Orphans, ranks before their helpers, then stopped processes of the running job."""
        orphans = {pid: why for pid in self.members for why in [self._orphaned(pid)] if why}
        for pid in sorted(orphans, key=lambda pid: (self.roles[pid].role != "rank", pid)):
            yield self._candidate("orphan", pid, orphans[pid])
        for pid in sorted(self.members):
            if pid not in orphans and self._states[pid] == "T" and self._is_kept(pid):
                yield self._candidate("stopped", pid, "a stop signal holds it (state T)")

    def _chain(self, pid: int) -> List[int]:
        """The process and its ancestors, as far as they carry a rank."""
        chain = [pid]
        while self.members[chain[-1]].parent in self.members and self.members[chain[-1]].parent not in chain:
            chain.append(self.members[chain[-1]].parent)
        return chain

    def _is_kept(self, pid: int) -> bool:
        """True for what belongs to a rank of the running job."""
        return not self._keep.isdisjoint([self.roles[pid].owner, *self._chain(pid)])

    def _orphaned(self, pid: int) -> str:
        """Why a process is an orphan; empty for one that is none."""
        chain, owner = self._chain(pid), self.roles[pid].owner
        if owner and owner not in chain:  # a helper that detached itself from its rank goes with it
            return self._orphaned(owner)
        if any(self.roles[one].role == "launcher" for one in chain) or not self.members[chain[-1]].orphan:
            return ""
        if self.roles[pid].role == "stray":
            return "a helper whose rank is gone"
        rank = next((one for one in chain if self.roles[one].role == "rank"), owner or pid)
        env = self.members[rank].env
        run = [
            other
            for other, role in self.roles.items()
            if role.role == "rank" and self.members[other].env.job == env.job
        ]
        launched = env.launcher != "env"
        if env.local_world_size is not None and len(run) < env.local_world_size and self._age(run) > YOUNG:
            return "%d of the %d ranks that its run had here are left" % (len(run), env.local_world_size)
        return "its launcher (%s) is gone" % env.launcher if launched and not self._is_kept(pid) else ""

    def _age(self, run: List[int]) -> float:
        """Seconds since the youngest of these processes started."""
        youngest = max((self.members[one].start_ticks for one in run), default=0)
        return time.time() - (self._booted + youngest / CLOCK_TICKS)

    def _candidate(self, what: str, pid: int, why: str) -> RepairCandidate:
        member = self.members[pid]
        base = "%s/%d" % (self._proc, pid)
        status = parse_status(read_or_none(base + "/status") or b"", pid)
        uid = status.uid if status is not None else -1
        held = held_sockets(pid, self._proc)
        return RepairCandidate(
            what=what,
            pid=pid,
            start_ticks=member.start_ticks,
            started=round(self._booted + member.start_ticks / CLOCK_TICKS, 2),
            rank=member.env.rank,
            role=self.roles[pid].role,
            user=users().get(uid, str(uid)),
            run_id=member.env.run_id,
            command=redact.command(member.words, 256) or member.comm,
            state=self._states[pid],
            ports=sorted({one.port for one in _listeners(pid, self._proc) if one.inode in held}),
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
        say_all([*RankProcesses("/proc", {int(str(pid)) for pid in keep}).candidates(), END])
    elif isinstance(rows, list):
        targets = [SignalTarget(int(str(pid)), int(str(ticks))) for pid, ticks in rows]
        grace = float(str(arguments.get("grace", 0.0)))
        told = continue_all(targets) if arguments.get("signal") == "CONT" else end_all(targets, grace)
        say_all([*told, Signalled(0, "end", "")])
