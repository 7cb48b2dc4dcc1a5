"""Open this process to a watcher: permission to trace it, and torch's flight recorder.

Each function returns a line on what it did, or why it did nothing; a refusal by the system raises nothing.
"""

from __future__ import annotations

import os
from typing import Mapping, MutableMapping, Tuple

PR_SET_PTRACER = 0x59616D61
ANY = (1 << 64) - 1
"""prctl(2), PR_SET_PTRACER: any process may trace that the kernel's other rules allow (same user, root)."""

RECORDER = (
    ("TORCH_FR_BUFFER_SIZE", "2000"),
    ("TORCH_NCCL_TRACE_BUFFER_SIZE", "2000"),
    ("TORCH_NCCL_DUMP_ON_TIMEOUT", "1"),
)
"""Settings of the flight recorder, by its names since torch 2.12 and before; values set by the job stay."""
PIPE = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE"


def let_trace(scope_file: str = "/proc/sys/kernel/yama/ptrace_scope") -> str:
    """Let every process of this user trace this process, if Yama allows only its ancestors."""
    try:
        with open(scope_file, encoding="ascii") as file:
            scope = file.read().strip()
    except OSError:
        return "tracing: unchanged, because this kernel does not restrict it among processes of one user"
    if scope == "0":
        return "tracing: unchanged, because any process of this user may (kernel.yama.ptrace_scope is 0)"
    if scope != "1":
        return "tracing: only root may here (kernel.yama.ptrace_scope is %s)" % scope
    import ctypes  # half a megabyte, needed only here

    call = ctypes.CDLL(None, use_errno=True)
    if call.prctl(PR_SET_PTRACER, ctypes.c_ulong(ANY), 0, 0, 0) != 0:
        return "tracing: the kernel refused: %s" % os.strerror(ctypes.get_errno())
    return "tracing: allowed to processes of this user (PR_SET_PTRACER)"


def record(env: MutableMapping[str, str], *, started: bool) -> Tuple[str, str]:
    """Switch on torch's flight recorder and its pipe; returns the stem of the pipe, and a line about it.

    This works only before the first process group, because torch reads the settings when it makes one.
    """
    if started:
        return env.get(PIPE, ""), "flight recorder: unchanged, because torch.distributed has started already"
    new = [name for name, value in RECORDER if env.setdefault(name, value) == value]
    pipe = env.get(PIPE)
    if pipe is None:
        folder = _own_folder()
        if folder:
            pipe = env[PIPE] = "%s/fr_pipe_" % folder
            new.append(PIPE)
    if not new:
        return pipe or "", "flight recorder: unchanged, because the job has set it"
    return pipe or "", "flight recorder: %s" % ", ".join("%s=%s" % (name, env[name]) for name in new)


def _own_folder(env: Mapping[str, str] = os.environ) -> str:
    """A folder to which only this user can write, one per job on this node; empty if it cannot be made."""
    job = env.get("TORCHELASTIC_RUN_ID") or env.get("SLURM_JOB_ID") or env.get("MASTER_PORT") or str(os.getppid())
    safe = "".join(letter if letter.isalnum() else "_" for letter in job)[:40]
    folder = "%s/hangtop-%d-%s" % (env.get("TMPDIR") or "/tmp", os.getuid(), safe)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        found = os.lstat(folder)
    except OSError:
        return ""
    return folder if found.st_uid == os.getuid() and found.st_mode & 0o170022 == 0o040000 else ""
