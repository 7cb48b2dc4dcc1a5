"""One look at one process: what the kernel says of it first, then py-spy in the ways that fit, gentlest first."""

from __future__ import annotations

import os
import time
from typing import List, NamedTuple, Optional

from collectors.node import child, files
from collectors.node.processes import process_state, procfs
from collectors.node.processes.sockets import CarriedBytes, ProcessTraffic
from collectors.node.source import Absent
from collectors.node.stacks import pyspy, pyspy_output
from collectors.node.stacks.pyspy_output import DumpFailure
from collectors.samples.stacks import StackDump, ThreadStack

STOPPED, DEAD = frozenset("Tt"), frozenset("ZXx")
TRACED, UNINTERRUPTIBLE = "t", "D"
ATTACHING = ("native", "blocking")
"""Methods that attach to the process, as one tracer at a time may."""
SAID = 32 << 20
"""Bytes that one py-spy may say: threads, frames and names are the process's to make up."""
NO_NATIVE = "native frames of a process in a container: connect into it, by --via docker or kubectl"
"""py-spy asks the kernel for a thread by the number that it has in its own PID namespace."""


class Attempt(NamedTuple):
    """One way to call py-spy. ``with_locals``: also the arguments that tell peers and groups apart."""

    method: str
    with_locals: bool
    sudo: bool = False


class Manner(NamedTuple):
    """How processes are to be looked at."""

    spy: Optional[str]
    native: bool
    blocking: bool
    """May pause the process (for under 1 ms) when reads without a pause stay torn."""
    deadline: float
    """Seconds that one py-spy may take."""
    sudo: bool
    """``sudo -n`` may be tried. Never unasked: sudo reports each refusal to the administrators."""
    refusals: List[str]
    """What sudo said when it refused; it is not tried again."""


def look(pid: int, rank_pid: int, manner: Manner) -> StackDump:
    """Look at one process."""
    return _ProcessLook(pid, rank_pid, manner).taken()


class _ProcessLook:
    def __init__(self, pid: int, rank_pid: int, manner: Manner) -> None:
        self._pid = pid
        self._rank_pid = rank_pid
        self._manner = manner
        self._at = time.time()
        status = procfs.read_status("/proc", pid)
        self._own_pid = None if status is None else status.inner_pid
        self._is_inside = self._own_pid not in (None, pid)
        self._state = process_state.of(pid)
        # of the rank, and of a helper that is met at a connection: each question lists every connection of the node
        at_one = self._state is not None and self._state.waiting_on.startswith("tcp ")
        self._traffic = CarriedBytes(pid) if pid == rank_pid or at_one else None
        self._threads: List[ThreadStack] = []
        self._method = "none"
        self._failure: Optional[DumpFailure] = None

    def taken(self) -> StackDump:
        """Try one way after the other for as long as the next may help, and tell what came of it."""
        plan = self._plan()
        while plan:
            self._at = time.time()
            # frames and kernel state must be of the same moment, so it is read anew for each attempt
            self._state = process_state.of(self._pid) or self._state
            plan = self._try(plan[0], plan[1:])
            now = process_state.of(self._pid)
            if now is not None and now.state in STOPPED:  # what would pause it is left out
                plan = [attempt for attempt in plan if attempt.method == "nonblocking"]
        return self._result()

    def _plan(self) -> List[Attempt]:
        if self._state is None or self._state.state in DEAD:
            why = "zombie, not yet waited for" if self._state else "no such process"
            self._failure = DumpFailure("gone", why)
            return []
        if self._manner.spy is None:
            self._failure = DumpFailure("no-py-spy", "no py-spy on this node, and none to lend to it")
            return []
        plan = [Attempt("nonblocking", True), Attempt("nonblocking", False)]
        if self._manner.native and self._state.state not in STOPPED and not self._is_inside:
            plan.insert(0, Attempt("native", True))
        return [*plan, Attempt("blocking", False)] if self._manner.blocking else plan

    def _try(self, attempt: Attempt, rest: List[Attempt]) -> List[Attempt]:
        """Make an attempt; those that may help after it."""
        spy, refusals = self._manner.spy, self._manner.refusals
        assert spy is not None
        words = pyspy.dump_command(spy, self._pid, attempt.method, attempt.with_locals)
        try:
            command = ["sudo", "-n", *words] if attempt.sudo else words
            ended = child.run(command, self._manner.deadline, SAID)
        except Absent as reason:
            ended = child.ChildEnded(1, b"", str(reason).encode())
        if ended.status == 0:
            return self._take(attempt, ended.stdout, rest)
        if attempt.sudo and ended.stderr.startswith(b"sudo:"):
            refusals.append(files.text(ended.stderr).strip().splitlines()[0])
            return []
        if self._threads:
            return rest  # an earlier attempt gave some frames, which are better than none
        if len(ended.stdout) > SAID:
            failure = DumpFailure("failed", "py-spy says more than %d MB of it" % (SAID >> 20))
        elif ended.status is None:
            failure = DumpFailure("timeout", "py-spy did not come back (%s)" % attempt.method)
        else:
            failure = pyspy_output.failure(ended.stderr)
        if failure.word in ("denied", "stopped") and attempt.method in ATTACHING:
            self._failure = self._failure or failure  # another tracer is at it; reading needs no tracer
            return rest
        self._failure = failure
        if failure.word == "torn" or (failure.word == "timeout" and attempt.method == "native"):
            return rest
        may = self._manner.sudo and os.geteuid() != 0 and not refusals and not attempt.sudo
        return [Attempt("nonblocking", True, sudo=True)] if may and failure.word == "denied" else []

    def _take(self, attempt: Attempt, stdout: bytes, rest: List[Attempt]) -> List[Attempt]:
        try:
            self._threads = pyspy_output.threads(stdout, self._pid, self._own_pid)
        except ValueError as error:
            self._failure = DumpFailure("torn", "py-spy's answer cannot be read: %s" % error)
            return rest
        self._method, self._failure = attempt.method, None
        main = pyspy_output.main_thread(self._threads, self._pid)
        return [] if main is not None and main.frames else rest

    def _result(self) -> StackDump:
        seen, failure = self._seen(), self._failure
        remedy, error = NO_NATIVE if self._manner.native and self._is_inside else "", ""
        if failure is not None:
            error = "%s: %s" % failure
            if failure.word == "denied":
                remedy = way_out(self._pid)
                error = "; ".join([error, *self._manner.refusals[:1]])
        is_rank, stuck = self._pid == self._rank_pid, failure is not None or seen.state == UNINTERRUPTIBLE
        return StackDump(
            self._pid,
            self._rank_pid,
            self._at,
            self._method,
            seen.state,
            seen.wchan,
            seen.syscall,
            seen.cpu,
            error,
            self._threads,
            seen.waiting_on,
            process_state.kernel_stack(self._pid) if stuck else [],
            remedy,
            *(self._traffic.told() if self._traffic is not None else ProcessTraffic()),
            process_state.beside_main(self._pid) if is_rank and seen.syscall == "futex" else [],
        )

    def _seen(self) -> process_state.ProcessState:
        """What the kernel said; not of a pause that has passed meanwhile: another look's, not a debugger's."""
        seen = self._state or process_state.ProcessState("", "", "", "", 0.0)
        return (process_state.of(self._pid) or seen) if seen.state == TRACED else seen


def way_out(pid: int, proc: str = "/proc") -> str:
    """What would let this user trace that process, as far as this node's settings tell."""
    scope = files.read_int(proc + "/sys/kernel/yama/ptrace_scope")
    status = procfs.read_status(proc, pid)
    sudo = "allow sudo -n py-spy there and use --sudo"
    if os.geteuid() == 0 and not procfs.may_trace_all():
        return (
            "this root lacks CAP_SYS_PTRACE (a container?): start it with --cap-add SYS_PTRACE "
            "(Kubernetes: securityContext.capabilities), or connect to the host"
        )
    if os.geteuid() == 0:
        return "root was refused: the process may be stuck in the kernel, or a security module forbids it"
    if status is not None and status.uid != os.geteuid():
        return "the process belongs to uid %d: connect as that user or as root, or %s" % (status.uid, sudo)
    if scope:
        own = "sysctl kernel.yama.ptrace_scope=0"
        return "kernel.yama.ptrace_scope is %d: connect as root, %s, or as root run %s" % (scope, sudo, own)
    return "connect as root, or %s" % sudo
