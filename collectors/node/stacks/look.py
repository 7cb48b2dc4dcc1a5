"""One look at one process: what the kernel says of it first, then py-spy in the ways that fit, gentlest first."""

from __future__ import annotations

import os
import time
from collections import deque
from typing import Deque, List, NamedTuple, Optional

from collectors.node import files
from collectors.node.network.tcp_info import CarriedBytes, TrafficTold
from collectors.node.processes import capabilities, process_state
from collectors.node.stacks import pyspy, pyspy_output
from collectors.samples.stacks import StackDump, ThreadStack

STOPPED = frozenset("Tt")
TRACED = "t"
_ATTACHING = ("native", "blocking")
"""Ways that attach to the process, as one tracer at a time may."""
DEAD = frozenset("ZXx")
UNINTERRUPTIBLE = "D"
NO_NATIVE = "native frames of a process in a container: connect into it, by --via docker or kubectl"
"""py-spy asks the kernel for a thread by the number that it has in its own PID namespace."""


class Attempt(NamedTuple):
    """One way to call py-spy. ``with_locals``: also the arguments that tell peers and groups apart."""

    method: str
    with_locals: bool
    sudo: bool = False


class Manner(NamedTuple):
    """How a request wants its processes looked at."""

    native: bool
    blocking: bool
    """May pause the process (for under 1 ms) when reads without a pause stay torn."""


class Sudo:
    """Whether ``sudo -n`` is worth a try on this node: the user allows it, and the first look that tried did not fail.

    Never unasked: sudo reports each refusal to the administrators.
    """

    def __init__(self, allowed: bool = False) -> None:
        self.allowed = allowed
        self.refused = os.geteuid() == 0
        self.said = ""


class LookUnderWay:
    """A look under way: ask :meth:`command`, run it, hand the outcome to :meth:`take`, until :attr:`finished`."""

    def __init__(self, pid: int, rank_pid: int, manner: Manner, spy: Optional[pyspy.PySpy], sudo: Sudo) -> None:
        self.pid = pid
        self.rank_pid = rank_pid
        self.threads: List[ThreadStack] = []
        self.failure: Optional[pyspy_output.DumpFailure] = None
        self._manner = manner
        self._spy = spy
        self._sudo = sudo
        self._at = time.time()
        self._method = "none"
        self._own_pid = process_state.identity(pid).own_pid
        self._is_inside = self._own_pid not in (None, pid)
        self._state = process_state.of(pid)
        # of the rank, and of a helper that is met at a connection: each question lists every connection of the node
        at_one = self._state is not None and self._state.waiting_on.startswith("tcp ")
        self._traffic = CarriedBytes(pid) if pid == rank_pid or at_one else None
        self._plan: Deque[Attempt] = deque()
        self._attempt = Attempt("none", False)
        self._make_plan()

    @property
    def finished(self) -> bool:
        """True when there is an answer, with or without frames."""
        return not self._plan

    def _make_plan(self) -> None:
        if self._state is None or self._state.state in DEAD:
            self.failure = pyspy_output.DumpFailure(
                "gone", "zombie, not yet waited for" if self._state else "no such process"
            )
        elif self._spy is None:
            self.failure = pyspy_output.DumpFailure("no-py-spy", "no py-spy on this node, and none to lend to it")
        else:
            native = self._manner.native and self._state.state not in STOPPED
            if native and not self._is_inside:
                self._plan.append(Attempt("native", True))
            self._plan.append(Attempt("nonblocking", True))
            self._plan.append(Attempt("nonblocking", False))
            if self._manner.blocking:
                self._plan.append(Attempt("blocking", False))

    def command(self) -> List[str]:
        """Words of the next attempt."""
        assert self._spy is not None
        self._attempt = self._plan[0]
        self._at = time.time()
        # frames and kernel state must be of the same moment, so it is read anew for each attempt
        self._state = process_state.of(self.pid) or self._state
        program = self._spy.for_sudo if self._attempt.sudo else self._spy.path
        words = pyspy.dump_command(program, self.pid, self._attempt.method, self._attempt.with_locals)
        return ["sudo", "-n", *words] if self._attempt.sudo else words

    def take(self, status: Optional[int], stdout: bytes, stderr: bytes) -> None:
        """Take what an attempt brought (``status`` None: its time was up) and plan the next where one would help."""
        attempt = self._plan.popleft()
        if status == 0:
            self._take_threads(attempt, stdout)
        elif status is None:
            self._fail(pyspy_output.DumpFailure("timeout", "py-spy did not come back (%s)" % attempt.method))
        elif attempt.sudo and stderr.startswith(b"sudo:"):
            self._sudo.refused = True
            self._sudo.said = stderr.decode("utf-8", "replace").strip().splitlines()[0]
            self._plan.clear()
        else:
            self._fail(pyspy_output.failure(stderr))
        self._leave_out_what_would_pause_a_stopped_one()

    def _take_threads(self, attempt: Attempt, stdout: bytes) -> None:
        try:
            self.threads = pyspy_output.threads(stdout, self.pid, self._own_pid)
        except ValueError as error:
            self.failure = pyspy_output.DumpFailure("torn", "py-spy's answer cannot be read: %s" % error)
            return
        self._method = attempt.method
        self.failure = None
        main = pyspy_output.main_thread(self.threads, self.pid)
        if main is not None and main.frames:
            self._plan.clear()

    def _fail(self, failure: pyspy_output.DumpFailure) -> None:
        if self.threads:
            return  # an earlier attempt gave some frames, which are better than none
        if failure.word in ("denied", "stopped") and self._attempt.method in _ATTACHING:
            self.failure = self.failure or failure  # another tracer is at it; reading needs no tracer
            return
        self.failure = failure
        if failure.word == "torn" or (failure.word == "timeout" and self._attempt.method == "native"):
            return
        self._plan.clear()
        may = self._sudo.allowed and not self._sudo.refused
        if failure.word == "denied" and may and not self._attempt.sudo:
            self._plan.append(Attempt("nonblocking", True, sudo=True))

    def _leave_out_what_would_pause_a_stopped_one(self) -> None:
        now = process_state.of(self.pid)
        if now is not None and now.state in STOPPED:
            self._plan = deque(attempt for attempt in self._plan if attempt.method == "nonblocking")

    def _seen(self) -> process_state.ProcessState:
        """What the kernel said; not of a pause that has passed meanwhile: another look's, not a debugger's."""
        seen = self._state or process_state.ProcessState("", "", "", "", 0.0)
        if seen.state != TRACED:
            return seen
        return process_state.of(self.pid) or seen

    def result(self) -> StackDump:
        """The answer."""
        seen = self._seen()
        failure = self.failure
        remedy, error = NO_NATIVE if self._manner.native and self._is_inside else "", ""
        if failure is not None:
            error = "%s: %s" % failure
            if failure.word == "denied":
                remedy = way_out(self.pid)
                error += "; %s" % self._sudo.said if self._sudo.said else ""
        stuck = failure is not None or seen.state == UNINTERRUPTIBLE
        return StackDump(
            self.pid,
            self.rank_pid,
            self._at,
            self._method,
            seen.state,
            seen.wchan,
            seen.syscall,
            seen.cpu,
            error,
            self.threads,
            seen.waiting_on,
            process_state.kernel_stack(self.pid) if stuck else [],
            remedy,
            *(self._traffic.told() if self._traffic is not None else TrafficTold()),
            process_state.beside_main(self.pid) if self.pid == self.rank_pid and seen.syscall == "futex" else [],
        )


def way_out(pid: int, proc: str = "/proc") -> str:
    """What would let this user trace that process, as far as this node's settings tell."""
    scope = files.read_int(proc + "/sys/kernel/yama/ptrace_scope")
    owner = process_state.identity(pid, proc).uid
    if os.geteuid() == 0:
        if not capabilities.has(capabilities.SYS_PTRACE):
            return (
                "this root lacks CAP_SYS_PTRACE (a container?): start it with --cap-add SYS_PTRACE "
                "(Kubernetes: securityContext.capabilities), or connect to the host"
            )
        if scope == 3:
            return "kernel.yama.ptrace_scope is 3: nobody may trace until the node is booted anew"
        return (
            "root with CAP_SYS_PTRACE was refused: the process may be stuck in the kernel, or a security module forbids"
        )
    if owner is not None and owner != os.geteuid():
        ways = "connect as that user or as root, or allow sudo -n py-spy there and use --sudo"
        return "the process belongs to uid %d: %s" % (owner, ways)
    if scope:
        return (
            "kernel.yama.ptrace_scope is %d: connect as root, allow sudo -n py-spy and use --sudo, or as root run "
            "sysctl kernel.yama.ptrace_scope=0" % scope
        )
    if files.link("%s/%d/ns/user" % (proc, pid)) != files.link(proc + "/self/ns/user"):
        return "the process is in another user namespace (a rootless container): connect as root, or into the container"
    return "connect as root, or allow sudo -n py-spy there and use --sudo"
