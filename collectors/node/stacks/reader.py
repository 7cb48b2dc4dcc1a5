"""One look at one process: first its kernel state, then py-spy by the methods that apply, least intrusive first."""

from __future__ import annotations

import os
import time
from typing import List, NamedTuple, Optional, Union

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
"""Bytes of output of one py-spy at most: the process controls the number of its threads and frames, and their names."""
NO_NATIVE = "native frames of a process in a container: connect into it, by --via docker or kubectl"
"""Way out for native frames of a process in a container: py-spy attaches to threads by their ids in the container's PID
namespace."""
READING = "nonblocking"
"""The only method that neither pauses the process nor attaches to it (the kernel allows one tracer at a time)."""
Answer = Union[List[ThreadStack], DumpFailure]
"""Threads of a process from one py-spy run, or the reason why there are none."""


class DumpRequest(NamedTuple):
    """Which processes to dump, and how."""

    pids: List[int] = []  # noqa: RUF012 (never written to)
    native: bool = False
    """With native frames: pauses each process for up to 25 ms and costs half a second of CPU for each."""
    blocking: bool = True
    """If reads stay torn, one may be repeated with the process paused, for under 1 ms."""
    samples: int = 1
    deadline: float = 3.0
    """Seconds that one py-spy may take."""
    sudo: bool = False
    """``sudo -n`` may be tried where this login may not trace. Only on request: sudo reports each refusal to the
    administrators."""


class StackReader:
    """Reads stacks with the py-spy at path ``spy``; None if the node has none."""

    def __init__(self, spy: Optional[str]) -> None:
        self._spy = spy
        self._refused = ""
        """Sudo's message when it refused; sudo is then not tried again."""

    def read(self, pid: int, rank_pid: int, request: DumpRequest) -> StackDump:
        """Dump one process."""
        at, state, status = time.time(), process_state.of(pid), procfs.read_status("/proc", pid)
        own_pid = None if status is None else status.inner_pid
        is_inside = own_pid not in (None, pid)
        # only for ranks, and helpers that wait on a connection: each query lists all connections of the node
        at_one = state is not None and state.waiting_on.startswith("tcp ")
        traffic = CarriedBytes(pid) if pid == rank_pid or at_one else None
        threads: List[ThreadStack] = []
        method, failure = "none", None
        # methods in the order of trial, least intrusive first, except native frames, which were requested; each with or
        # without the arguments that identify peers and groups
        ways = [("native", True)] if request.native and not is_inside else []
        ways += [(READING, True), (READING, False), *([("blocking", False)] if request.blocking else [])]
        if state is None or state.state in DEAD:
            ways, failure = [], DumpFailure("gone", "zombie, not yet waited for" if state else "no such process")
        for tried, with_locals in ways:
            attaches = tried != READING
            # frames and kernel state must be of the same moment, so the state is read anew for each attempt
            at, state = time.time(), process_state.of(pid) or state
            if attaches and state is not None and state.state in STOPPED:
                continue
            answer = self._ask(tried, with_locals, pid, own_pid, request)
            if isinstance(answer, DumpFailure):
                # a later method may fail because another tracer is attached; frames already read are kept
                failure = failure if threads or (failure is not None and attaches) else answer
                if not (threads or attaches or answer.word == "torn"):
                    break
            else:
                threads, method, failure = answer, tried, None
                main = main_thread(threads, pid)
                if main is not None and main.frames:
                    break
        remedy = NO_NATIVE if request.native and is_inside else ""
        if state is not None and state.state == TRACED:  # the pause of another dump may be over by now
            state = process_state.of(pid) or state
        seen = state or ProcessState("", "", "", "", 0.0)
        return StackDump(
            pid, rank_pid, at, method, seen.state, seen.wchan, seen.syscall, seen.cpu,
            "" if failure is None else "%s: %s" % failure, threads, seen.waiting_on,
            process_state.kernel_stack(pid) if failure is not None or seen.state == UNINTERRUPTIBLE else [],
            way_out(pid) if failure is not None and failure.word == "denied" else remedy,
            *(traffic.measured() if traffic is not None else ProcessTraffic()),
            process_state.beside_main(pid) if pid == rank_pid and seen.syscall == "futex" else [],
        )  # fmt: skip

    def _ask(self, method: str, with_locals: bool, pid: int, own_pid: Optional[int], request: DumpRequest) -> Answer:
        """Call py-spy; if this user is denied and the request allows sudo, call it again by sudo."""
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


def way_out(pid: int, proc: str = "/proc") -> str:
    """Advice how to get the right to trace a process, from this node's settings."""
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
        setting = "sysctl kernel.yama.ptrace_scope=0"
        return "kernel.yama.ptrace_scope is %d: connect as root, %s, or as root run %s" % (scope, sudo, setting)
    return "connect as root, or %s" % sudo
