"""Opens the ways that a watcher needs into this process: who may trace it, how it tells its stacks, what torch records.

Each function says in one line what it did, or why it did nothing; none raises for what the system refuses.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
from typing import Callable, List, Mapping, MutableMapping, NamedTuple, Optional, Tuple

from hangtop.inside.page import stacks_file

PR_SET_PTRACER = 0x59616D61
ANY = (1 << 64) - 1
"""prctl(2), PR_SET_PTRACER: any process may trace, as far as the kernel's other rules let it: its user's, root's."""

RECORDER = (
    ("TORCH_FR_BUFFER_SIZE", "2000"),
    ("TORCH_NCCL_TRACE_BUFFER_SIZE", "2000"),
    ("TORCH_NCCL_DUMP_ON_TIMEOUT", "1"),
)
"""Settings of the flight recorder, by the names of torch since 2.12 and before; only what nobody has set."""
PIPE = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE"


class Opened(NamedTuple):
    """What was done."""

    did: List[str]
    pipe: str = ""
    """Beginning of the path of the recorder's pipe; the rank's number and ``.pipe`` follow."""
    signal: int = 0
    stacks: int = -1
    """The file that faulthandler writes to; -1 for none."""


def open_ways(*, tracer: bool, stacks: bool, recorder: bool) -> Opened:
    """Open those that are wanted."""
    did: List[str] = []
    pipe, number, file = "", 0, -1
    if tracer:
        did.append(let_trace())
    if stacks:
        number, file, said = dump_on_signal()
        did.append(said)
    if recorder:
        pipe, said = record(os.environ, started=torch_started())
        did.append(said)
    return Opened(did, pipe, number, file)


class Registered(NamedTuple):
    """What faulthandler was told: it stays for the process, and for what that forks."""

    pid: int
    signal: int
    file: int


_registered: List[Registered] = []


def let_trace(scope_file: str = "/proc/sys/kernel/yama/ptrace_scope") -> str:
    """Let every process of this user trace this one, where Yama would let its parents alone."""
    try:
        with open(scope_file, encoding="ascii") as file:
            scope = file.read().strip()
    except OSError:
        return "tracing: left alone, as this kernel does not restrict it among processes of one user"
    if scope == "0":
        return "tracing: left alone, as any process of this user may (kernel.yama.ptrace_scope is 0)"
    if scope != "1":
        return "tracing: not allowed to anybody but root here (kernel.yama.ptrace_scope is %s)" % scope
    import ctypes  # half a megabyte, and needed here alone

    call = ctypes.CDLL(None, use_errno=True)
    if call.prctl(PR_SET_PTRACER, ctypes.c_ulong(ANY), 0, 0, 0) != 0:
        return "tracing: the kernel refused: %s" % os.strerror(ctypes.get_errno())
    return "tracing: allowed to processes of this user (PR_SET_PTRACER)"


def dump_on_signal() -> Tuple[int, int, str]:
    """Have faulthandler write the stacks of all threads into memory on a signal that nobody uses.

    Gives the signal and the file, (0, -1) where there is none, and what to say.
    """
    before = _registered[-1] if _registered else None
    if before is not None and before.pid == os.getpid():
        return before.signal, before.file, _told(before.signal)
    # what a process forks has its signal, whose file is the parent's
    number = free_signal(_caught(), signal.getsignal) if before is None else before.signal
    if not number:
        return 0, -1, "stacks on a signal: no real-time signal is free"
    try:
        file = stacks_file()
        faulthandler.register(number, file=file, all_threads=True, chain=False)
    except (OSError, RuntimeError, ValueError) as error:
        return 0, -1, "stacks on a signal: %s" % error
    if before is not None:
        os.close(before.file)
    _registered[:] = [Registered(os.getpid(), number, file)]
    return number, file, _told(number)


def _told(number: int) -> str:
    return "stacks: written into memory on signal %d (faulthandler)" % number


def free_signal(caught: int, handler_of: Callable[[int], object]) -> int:
    """The highest real-time signal that neither Python nor anybody else handles or ignores; 0 for none.

    ``caught`` is a mask of signals that the process catches or ignores, the lowest bit for signal 1.
    """
    for number in range(signal.SIGRTMAX - 1, signal.SIGRTMIN + 1, -1):
        if not caught >> (number - 1) & 1 and handler_of(number) in (signal.SIG_DFL, None):
            return number
    return 0


def _caught() -> int:
    mask = 0
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith(("SigCgt:", "SigIgn:", "SigBlk:")):
                mask |= int(line.split()[1], 16)
    return mask


def record(env: MutableMapping[str, str], *, started: bool) -> Tuple[str, str]:
    """Switch torch's flight recorder and its pipe on; the pipe's stem, and what to say.

    Only before the first process group: torch reads these when it makes one.
    """
    if started:
        return env.get(PIPE, ""), "flight recorder: left alone, as torch.distributed has started already"
    new = [name for name, value in RECORDER if env.setdefault(name, value) == value]
    pipe = env.get(PIPE)
    if pipe is None:
        folder = _own_folder()
        if folder:
            pipe = env[PIPE] = "%s/fr_pipe_" % folder
            new.append(PIPE)
    if not new:
        return pipe or "", "flight recorder: left as the job has set it"
    return pipe or "", "flight recorder: %s" % ", ".join("%s=%s" % (name, env[name]) for name in new)


def _own_folder(env: Mapping[str, str] = os.environ) -> str:
    """A folder that only this user writes to, one for each job on this node; empty where there is none."""
    job = env.get("TORCHELASTIC_RUN_ID") or env.get("SLURM_JOB_ID") or env.get("MASTER_PORT") or str(os.getppid())
    safe = "".join(letter if letter.isalnum() else "_" for letter in job)[:40]
    folder = "%s/hangtop-%d-%s" % (env.get("TMPDIR") or "/tmp", os.getuid(), safe)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        found = os.lstat(folder)
    except OSError:
        return ""
    return folder if found.st_uid == os.getuid() and found.st_mode & 0o170022 == 0o040000 else ""


def torch_started() -> bool:
    """Whether this process has a process group already. Imports nothing."""
    distributed = sys.modules.get("torch.distributed")
    initialized: Optional[Callable[[], bool]] = getattr(distributed, "is_initialized", None)
    return bool(initialized and initialized())
