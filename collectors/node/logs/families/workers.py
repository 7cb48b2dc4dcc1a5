"""Data loader workers that died, shared memory that ran out, files and threads that could not be had."""

from __future__ import annotations

from typing import Dict, Iterator

from collectors.node import late_re as re
from collectors.node.logs.said import Data, Family, Said, fields, number

_KILLED = re.compile(
    r"DataLoader worker \(pid\(?s?\)? ?(?P<pid>\d+)[^)]*\) is killed by signal: (?P<signal>[^.\r\n(]+)"
)
_EXITED = re.compile(
    r"DataLoader worker \(pid\(?s?\)? ?(?P<pid>\d+)[^)]*\) exited unexpectedly(?: with exit code (?P<code>-?\d+))?"
)
_TIMED_OUT = re.compile(r"DataLoader timed out after (?P<seconds>\d+) seconds|DataLoader worker.*?timed out")
_UNEXPECTED = re.compile(r"Unexpected (?P<signal>segmentation fault|floating-point exception) encountered in worker")
_REASONS: Dict[str, str] = {
    "bus ": "bus",
    "bus": "bus",
    "kill": "killed",
    "segm": "segfault",
    "abor": "aborted",
    "term": "killed",
}
_SHARED = re.compile(
    r"out of shared memory|insufficient shared memory|unable to (?:open|resize|write to file|mmap).*?(?:shared memory"
    r"|/torch_|/dev/shm)|No space left on device.*?/dev/shm"
)
_FILES = re.compile(r"Too many open files|received 0 items of ancdata")
_CANNOT_ALLOCATE = re.compile(
    r"(?P<what>Cannot allocate memory|\b(?:RayOutOf)?MemoryError\b|std::bad_alloc|memory allocation of \d+ bytes failed"
    r"|killed due to memory pressure"
    r"|DefaultCPUAllocator: (?:can't allocate|not enough) memory|node running low on memory"
    r"|\bMemory on the node \(IP: [\w.:-]{3,80}, ID: \w{1,80}\) where the (?:task|actor|lease))"
    r"(?:.*?tried to allocate (?P<tried>\d+) bytes)?"
)
_PROCESSES = re.compile(
    r"(?:pthread_create|[Tt]hread creation|thread constructor|\bfork"
    r"|\bclone)\b[^\r\n]{0,80}?Resource temporarily unavailable"
    r"|can't start new thread|RLIMIT_NPROC \d{1,9} current|[Nn]o more processes|unable to create native thread"
    r"|Resource temporarily unavailable[^\r\n]{0,40}(?:pthread_create|thread|fork)"
)
"""What libraries and shells say when a user, a container or a node has as many processes and threads as it may have."""
_ON_NODE = re.compile(r"node \((?:ID: \w{1,80}, )?IP: (?P<host>[\w.:-]{1,80})")
"""Ray's memory monitor says on which node it killed."""


def read(text: str) -> Iterator[Said]:
    """Events of one line."""
    killed = _KILLED.search(text)
    exited = None if killed is not None else _EXITED.search(text)
    if killed is not None:
        signal = killed.group("signal").strip()
        reason = _REASONS.get(signal.lower()[:4], "killed")
        yield Said("torch.worker_died", {"worker_pid": number(killed.group("pid")), "reason": reason, "signal": signal})
    elif exited is not None:
        data: Data = {"worker_pid": number(exited.group("pid")), "reason": "exited"}
        if exited.group("code"):
            data["exitcode"] = number(exited.group("code"))
        yield Said("torch.worker_died", data)
    elif _UNEXPECTED.search(text):
        yield Said("torch.worker_died", {"reason": "segfault" if "segmentation" in text else "killed"})
    elif _TIMED_OUT.search(text):
        yield Said("torch.worker_died", {"reason": "timeout"})
    if "NCCL WARN" in text:
        return
    memory = _CANNOT_ALLOCATE.search(text)
    if _FILES.search(text):
        yield Said("host.open_files", {})
    elif _PROCESSES.search(text):
        yield Said("host.processes", {})
    elif memory is not None:
        data = fields(memory, ("tried",))
        data["mapping"] = "unable to mmap" in text
        node = _ON_NODE.search(text)
        yield Said("host.memory", data, host=node.group("host") if node is not None else "")
    elif _SHARED.search(text):
        yield Said("host.shared_memory", {})


FAMILY = Family(
    "workers",
    (
        b"DataLoader ",
        b"encountered in worker",
        b"shared memory",
        b"/torch_",
        b"/dev/shm",
        b"open files",
        b"ancdata",
        b"allocate memory",
        b"MemoryError",
        b"bad_alloc",
        b"memory allocation of",
        b"DefaultCPUAllocator",
        b"running low on memory",
        b"Memory on the node",
        b"due to memory pressure",
        b"Resource temporarily",
        b"start new thread",
        b"RLIMIT_NPROC",
        b"o more processes",
        b"create native thread",
    ),
    read,
)
