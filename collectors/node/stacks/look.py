"""One look at one process: what the kernel says of it first, then py-spy in the ways that fit, gentlest first."""

from __future__ import annotations

import os
import time
from typing import List, NamedTuple, Optional, Tuple, Union

from collectors.node import child, files
from collectors.node.processes import process_state, procfs
from collectors.node.processes.process_state import ProcessState
from collectors.node.processes.sockets import CarriedBytes, ProcessTraffic
from collectors.node.source import Absent
from collectors.node.stacks import pyspy, pyspy_output
from collectors.node.stacks.pyspy_output import DumpFailure
from collectors.samples.stacks import StackDump, ThreadStack, main_thread

STOPPED, DEAD = frozenset("Tt"), frozenset("ZXx")
TRACED, UNINTERRUPTIBLE = "t", "D"
SAID = 32 << 20
"""Bytes that one py-spy may say: threads, frames and names are the process's to make up."""
NO_NATIVE = "native frames of a process in a container: connect into it, by --via docker or kubectl"
"""py-spy asks the kernel for a thread by the number that it has in its own PID namespace."""
READING = "nonblocking"
"""The one method that does not pause the process, as one tracer at a time may."""
Answer = Union[List[ThreadStack], DumpFailure]
"""What one py-spy says of a process, or why it says nothing."""


class DumpRequest(NamedTuple):
    """What to dump, and how."""

    pids: List[int] = []  # noqa: RUF012 (never written to)
    native: bool = False
    """With native frames: pauses each process for up to 25 ms and costs half a second of CPU for each."""
    blocking: bool = True
    """A read that stays torn may be repeated with the process paused, for under 1 ms."""
    samples: int = 1
    deadline: float = 3.0
    """Seconds that one py-spy may take."""
    sudo: bool = False
    """Where this login may not trace, ``sudo -n`` may be tried. Never unasked: sudo reports each refusal to the
    administrators."""


class Looker:
    """Looks at processes with one py-spy; None where there is none."""

    def __init__(self, spy: Optional[str]) -> None:
        self._spy = spy
        self._refused = ""
        """What sudo said when it refused; it is not tried again."""

    def look(self, pid: int, rank_pid: int, request: DumpRequest) -> StackDump:
        """Look at one process."""
        at, state, status = time.time(), process_state.of(pid), procfs.read_status("/proc", pid)
        own_pid = None if status is None else status.inner_pid
        is_inside = own_pid not in (None, pid)
        # of the rank, and of a helper that is met at a connection: each question lists every connection of the node
        at_one = state is not None and state.waiting_on.startswith("tcp ")
        traffic = CarriedBytes(pid) if pid == rank_pid or at_one else None
        threads: List[ThreadStack] = []
        method, failure = "none", None
        ways = _ways(request, native=request.native and not is_inside)
        if state is None or state.state in DEAD:
            ways, failure = [], DumpFailure("gone", "zombie, not yet waited for" if state else "no such process")
        for tried, with_locals in ways:
            attaches = tried != READING
            # frames and kernel state must be of the same moment, so it is read anew for each attempt
            at, state = time.time(), process_state.of(pid) or state
            if attaches and state is not None and state.state in STOPPED:
                continue
            answer = self._ask(tried, with_locals, pid, own_pid, request)
            if isinstance(answer, DumpFailure):
                # another tracer may be at it, and reading needs none; some frames are better than a later failure
                failure = failure if threads or (failure is not None and attaches) else answer
                if not (threads or attaches or answer.word == "torn"):
                    break
            else:
                threads, method, failure = answer, tried, None
                main = main_thread(threads, pid)
                if main is not None and main.frames:
                    break
        remedy = NO_NATIVE if request.native and is_inside else ""
        seen = _settled(pid, state)
        return StackDump(
            pid, rank_pid, at, method, seen.state, seen.wchan, seen.syscall, seen.cpu,
            "" if failure is None else "%s: %s" % failure, threads, seen.waiting_on,
            process_state.kernel_stack(pid) if failure is not None or seen.state == UNINTERRUPTIBLE else [],
            way_out(pid) if failure is not None and failure.word == "denied" else remedy,
            *(traffic.told() if traffic is not None else ProcessTraffic()),
            process_state.beside_main(pid) if pid == rank_pid and seen.syscall == "futex" else [],
        )  # fmt: skip

    def _ask(self, method: str, with_locals: bool, pid: int, own_pid: Optional[int], request: DumpRequest) -> Answer:
        """Call py-spy; where this user is denied, and that may be tried, by sudo."""
        if self._spy is None:
            return DumpFailure("no-py-spy", "no py-spy on this node, and none to lend to it")
        words = pyspy.dump_command(self._spy, pid, method, with_locals)
        answer = _run(words, request.deadline, pid, own_pid)
        denied = isinstance(answer, DumpFailure) and answer.word == "denied"
        if not (denied and request.sudo) or os.geteuid() == 0 or method != READING:
            return answer
        by_sudo = None if self._refused else _run(["sudo", "-n", *words], request.deadline, pid, own_pid)
        if isinstance(by_sudo, DumpFailure) and by_sudo.said.startswith("sudo:"):
            self._refused, by_sudo = by_sudo.said, None
        return by_sudo or DumpFailure("denied", "%s; %s" % (answer[1], self._refused))


def _ways(request: DumpRequest, *, native: bool) -> List[Tuple[str, bool]]:
    """Methods, each with or without the arguments that tell peers and groups apart.

    The gentlest first, but for native frames, which are asked for; with arguments before without.
    """
    ways = [("native", True)] if native else []
    ways += [(READING, True), (READING, False)]
    return [*ways, ("blocking", False)] if request.blocking else ways


def _run(words: List[str], deadline: float, pid: int, own_pid: Optional[int]) -> Answer:
    try:
        ended = child.run(words, deadline, SAID)
    except Absent as reason:
        return DumpFailure("failed", str(reason))
    if len(ended.stdout) > SAID:
        return DumpFailure("failed", "py-spy says more than %d MB of it" % (SAID >> 20))
    if ended.status is None:
        return DumpFailure("timeout", "py-spy did not come back")
    if ended.status != 0:
        return pyspy_output.failure(ended.stderr)
    try:
        return pyspy_output.threads(ended.stdout, pid, own_pid)
    except ValueError as error:
        return DumpFailure("torn", "py-spy's answer cannot be read: %s" % error)


def _settled(pid: int, state: Optional[ProcessState]) -> ProcessState:
    """What the kernel said; not of a pause that has passed meanwhile: another look's, not a debugger's."""
    if state is not None and state.state == TRACED:
        return process_state.of(pid) or state
    return state or ProcessState("", "", "", "", 0.0)


def way_out(pid: int, proc: str = "/proc") -> str:
    """What would let this user trace that process, as far as this node's settings tell."""
    sudo = "allow sudo -n py-spy there and use --sudo"
    if os.geteuid() == 0 and not procfs.may_trace_all():
        return (
            "this root lacks CAP_SYS_PTRACE (a container?): start it with --cap-add SYS_PTRACE "
            "(Kubernetes: securityContext.capabilities), or connect to the host"
        )
    if os.geteuid() == 0:
        return "root was refused: the process may be stuck in the kernel, or a security module forbids it"
    status, scope = procfs.read_status(proc, pid), files.read_int(proc + "/sys/kernel/yama/ptrace_scope")
    if status is not None and status.uid != os.geteuid():
        return "the process belongs to uid %d: connect as that user or as root, or %s" % (status.uid, sudo)
    if scope:
        own = "sysctl kernel.yama.ptrace_scope=0"
        return "kernel.yama.ptrace_scope is %d: connect as root, %s, or as root run %s" % (scope, sudo, own)
    return "connect as root, or %s" % sudo
