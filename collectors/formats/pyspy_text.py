"""py-spy's dumps: its text, and its JSON, of one process or of many in one file."""

from __future__ import annotations

import re
from collections.abc import Iterator

from collectors.formats import BadFormat
from collectors.formats.loose import Loose, document, integer, items, mapping, text
from collectors.samples.stacks import Frame, StackDump, ThreadStack

_PROCESS = re.compile(r"^(?:\[?\w*\]?:? ?)?Process (?P<pid>\d+): ?(?P<command>.*)$")
_TITLE = re.compile(r"^Process \d+: ", re.MULTILINE)
_CONTENTS = re.compile(r"^(?:Thread |Python v\d|Error: )", re.MULTILINE)
_BARE = re.compile(
    r"Thread (?:0x[0-9A-Fa-f]+|\d+) \((?:idle|active)[^)\n]*\)[^\n]*\r?\n\s{4,}\S[^\n]* \([^()\n]+:\d+\)"
)
"""A dump of which somebody kept the threads alone."""
_THREAD = re.compile(r"^Thread (?P<id>0x[0-9A-Fa-f]+|\d+) ?(?:\((?P<state>[^)]*)\))?(?:: \"(?P<name>.*)\")?\s*$")
_FRAME = re.compile(r"^\s{4,}(?P<name>\S.*?) \((?P<file>[^()]*?)(?::(?P<line>\d+))?\)\s*$")
_ERROR = re.compile(r"^(?:Error: (?P<error>.*)|(?P<denied>Permission Denied: .*))$")


PROCESSES, THREADS, FRAMES = 4096, 20_000, 5000
"""Processes of one dump, threads of a process, frames of a thread that are read."""


def looks_like(head: str) -> bool:
    """Whether a text that begins so may be a dump."""
    if _TITLE.search(head) and _CONTENTS.search(head):
        return True
    if _BARE.match(head.lstrip()):
        return True
    return '"thread_id"' in head and '"frames"' in head and '"owns_gil"' in head


def read(dump: str, *, at: float, pid: int = 0) -> list[StackDump]:
    """The processes of a dump. ``pid`` is for one that names none. Raises :class:`BadFormat` when it is none."""
    stripped = dump.lstrip()
    if stripped[:1] in ("[", "{"):
        return _json(stripped, at, pid)
    dumps = list(_text(dump, at, pid))
    if not dumps:
        raise BadFormat("no dump of py-spy: it names no process")
    return dumps


def _json(dump: str, at: float, pid: int) -> list[StackDump]:
    threads = [mapping(each) for each in items(document(dump.encode("utf-8", "replace")), THREADS)]
    if not any("frames" in thread for thread in threads):
        raise BadFormat("no dump of py-spy: it has no threads")
    by_pid: dict[int, list[ThreadStack]] = {}
    for thread in threads:
        by_pid.setdefault(integer(thread.get("pid")) or pid, []).append(_thread(thread))
    return [_dump(number, at, stacks) for number, stacks in by_pid.items()]


def _thread(thread: Loose) -> ThreadStack:
    return ThreadStack(
        thread_id=integer(thread.get("thread_id")) or 0,
        os_thread_id=integer(thread.get("os_thread_id")),
        name=text(thread.get("thread_name"), 200),
        active=thread.get("active") is True,
        owns_gil=thread.get("owns_gil") is True,
        frames=[_frame(mapping(frame)) for frame in items(thread.get("frames"), FRAMES)],
    )


def _frame(frame: Loose) -> Frame:
    line = integer(frame.get("line")) or 0
    return Frame(text(frame.get("name"), 500), text(frame.get("filename"), 1000), line, line == 0)


def _text(dump: str, at: float, pid: int) -> Iterator[StackDump]:
    current: StackDump | None = _dump(pid, at, []) if _BARE.match(dump.lstrip()) else None
    processes = 0
    for line in dump.splitlines():
        process = _PROCESS.match(line)
        if process is not None:
            if current is not None:
                yield current
            processes += 1
            if processes > PROCESSES:
                return
            current = _dump(int(process.group("pid")[:10]), at, [])
        elif current is not None:
            current = _with(current, line)
    if current is not None:
        yield current


def _with(dump: StackDump, line: str) -> StackDump:
    error = _ERROR.match(line)
    if error is not None:
        return dump._replace(error="failed: " + (error.group("error") or error.group("denied")), method="none")
    thread = _THREAD.match(line)
    if thread is not None and len(dump.threads) < THREADS:
        state = thread.group("state") or ""
        said = thread.group("id")[:18]
        number = int(said, 16 if said.startswith("0x") else 10)
        known = ThreadStack(number, None, thread.group("name") or "", "active" in state, "gil" in state, [])
        dump.threads.append(known)
        return dump
    frame = _FRAME.match(line)
    if frame is not None and dump.threads and len(dump.threads[-1].frames) < FRAMES:
        at_line = int((frame.group("line") or "0")[:9])
        dump.threads[-1].frames.append(Frame(frame.group("name"), frame.group("file"), at_line, at_line == 0))
    return dump


def _dump(pid: int, at: float, threads: list[ThreadStack]) -> StackDump:
    return StackDump(
        pid=pid,
        rank_pid=pid,
        at=at,
        method="blocking",
        state="",
        wchan="",
        syscall="",
        cpu=0.0,
        error="",
        threads=threads,
    )
