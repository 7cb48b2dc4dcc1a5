"""What does not move in a rank's process: limits, files, container, versions."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from typing import Dict, Mapping, Sequence

from collectors.node import redact
from collectors.node.files import link, read_or_none, text
from collectors.node.processes.environ import NO_RANK
from collectors.node.processes.namespaces import foreign_mounts, seen_by
from collectors.node.processes.procfs import CLOCK_TICKS, ProcessStatus, parse_cgroup, parse_limit
from collectors.node.ranks.job_process import JobProcess
from collectors.samples.ranks import RankProcess


def rank_process(
    proc: str, booted: float, subject: JobProcess, status: ProcessStatus, versions: Mapping[str, str]
) -> RankProcess:
    """What does not move in a rank; a fact that cannot be read is left unknown.

    From /proc alone: other file systems may hang.
    """
    base = "%s/%d" % (proc, subject.pid)
    env, stat = subject.env, subject.stat
    limits = read_or_none(base + "/limits") or b""
    cgroup = parse_cgroup(read_or_none(base + "/cgroup") or b"")
    cwd = link(base + "/cwd")
    return RankProcess(
        pid=subject.pid,
        started=round(booted + stat.start_ticks / CLOCK_TICKS, 2),
        **{name: value for name, value in env._asdict().items() if name != "assigned"},
        parent=stat.parent,
        command=redact.command(subject.words),
        cwd=cwd,
        container=cgroup.name or foreign_mounts(subject.pid, proc),
        uid=status.uid,
        user=users().get(status.uid, str(status.uid)),
        open_files_limit=parse_limit(limits, b"Max open files"),
        memlock_limit=parse_limit(limits, b"Max locked memory"),
        stdout=link(base + "/fd/1"),
        stderr=link(base + "/fd/2"),
        nccl_log=nccl_log(proc, subject.pid, status.inner_pid, cwd, subject.shown.get("NCCL_DEBUG_FILE", "")),
        env=dict(subject.shown),
        versions=dict(versions),
        library=subject.library,
        label=title(subject.words) if env.rank == NO_RANK else "",
        own_pid=0 if status.inner_pid == subject.pid else status.inner_pid,
    )


def nccl_log(proc: str, pid: int, own_pid: int, cwd: str, pattern: str) -> str:
    """NCCL_DEBUG_FILE as NCCL expands it, as a path that this side can open; empty for an empty pattern.

    ``%h``, ``%p`` and ``%%`` are expanded as NCCL's debug.cc does; everything else, ``%d`` too, stays as it is.
    """
    if not pattern:
        return ""
    values = {"%h": os.uname().nodename.partition(".")[0], "%p": str(own_pid), "%%": "%"}
    path = re.sub("%[hp%]", lambda found: values[found.group()], pattern)
    return seen_by(pid, path if path.startswith("/") else cwd + "/" + path, proc)


@lru_cache(maxsize=1)
def users(path: str = "/etc/passwd") -> Dict[int, str]:
    """User names by id, from the file alone: asking the name service may hang."""
    found: Dict[int, str] = {}
    for line in text(read_or_none(path) or b"").splitlines():
        fields = line.split(":")
        if len(fields) > 2 and fields[2].isdecimal():
            found.setdefault(int(fields[2]), fields[0])
    return found


def title(words: Sequence[str]) -> str:
    """The title that a process gave itself (``VLLM::Worker_TP1``, ``ray::Train.run``); empty where it shows none."""
    first = " ".join(words).strip()
    return first[:80] if "::" in first.partition(" ")[0] else ""
