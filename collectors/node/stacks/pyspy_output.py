"""What py-spy says: threads and frames, or why there are none."""

from __future__ import annotations

import json
import re
from typing import Dict, Iterable, List, NamedTuple, Optional

from collectors.node import files
from collectors.samples.stacks import Frame, ThreadStack

_ARGUMENTS = frozenset(("src", "dst", "group"))
_ARGUMENT_FILES = ("torch/distributed/", "deepspeed/comm/", "megatron/core/")
_ARGUMENT_LENGTH = 160
_WRAPPER = "torch/distributed/c10d_logger.py"
_NATIVE_NAME_LENGTH = 200
"""Names of C++ templates run to kilobytes."""


class DumpFailure(NamedTuple):
    """Why there are no frames: one of the words of :class:`collectors.samples.stacks.StackDump`, and what was said."""

    word: str
    said: str


_SIGNS = (
    ("ermission ?[Dd]enied|Operation not permitted|EPERM", "denied"),
    (r"No such file or directory \(os error 2\)|No such process|ESRCH", "gone"),
    ("unexpected waitpid result", "stopped"),
    ("Unsupported version of Python", "no-py-spy"),
    ("Failed to find (?:a )?python|doesn't appear to be a python", "not-python"),
    ("Failed to (?:copy|get stack traces|get local variables)|Bad address|Max thread recursion", "torn"),
)
"""First sign wins: a refusal shows inside "Failed to get stack traces" too."""


def failure(stderr: bytes) -> DumpFailure:
    """Read what py-spy said when it gave no frames."""
    said = files.text(stderr).partition("Stack backtrace:")[0]
    lines = [" ".join(line.split()) for line in said.splitlines()]
    told = [line.partition("Error: ")[2] if line.startswith("Error: ") else line for line in lines]
    text = "; ".join(dict.fromkeys(line for line in told if line and line != "Caused by:"))[:600]
    for sign, word in _SIGNS:
        if re.search(sign, said):
            return DumpFailure(word, text)
    return DumpFailure("failed", text or "py-spy said nothing")


def threads(output: bytes, pid: int, own_pid: Optional[int]) -> List[ThreadStack]:
    """Threads of a dump in JSON. Raises :class:`ValueError` when it is none.

    ``own_pid`` is the process's id in its own PID namespace: Python knows its main thread by that number.
    """
    return [_thread(_fields(thread), pid, own_pid) for thread in _list(json.loads(output))]


def main_thread(stacks: Iterable[ThreadStack], pid: int) -> Optional[ThreadStack]:
    """The main thread among those of a process; None when it is not there."""
    for thread in stacks:
        if thread.os_thread_id == pid or thread.name == "MainThread":
            return thread
    return None


def _thread(thread: Dict[str, object], pid: int, own_pid: Optional[int]) -> ThreadStack:
    system_id = thread.get("os_thread_id")
    if system_id == own_pid and own_pid is not None:
        system_id = pid
    return ThreadStack(
        _integer(thread.get("thread_id")),
        system_id if isinstance(system_id, int) else None,
        _text(thread.get("thread_name")),
        bool(thread.get("active")),
        bool(thread.get("owns_gil")),
        [_frame(_fields(frame)) for frame in _list(thread.get("frames"))],
    )


def _frame(frame: Dict[str, object]) -> Frame:
    name, path = _text(frame.get("name")), _text(frame.get("filename"))
    if frame.get("module") is not None:  # only native frames have one, the path of their library
        return Frame(name[:_NATIVE_NAME_LENGTH], path, _integer(frame.get("line")), True)
    return Frame(name, path, _integer(frame.get("line")), False, _arguments(path, frame.get("locals")))


def _arguments(path: str, variables: object) -> Dict[str, str]:
    """The few variables that may leave the node (see ``Frame.arguments``)."""
    if not isinstance(variables, list) or not any(part in path for part in _ARGUMENT_FILES):
        return {}
    values = {_text(variable.get("name")): _text(variable.get("repr")) for variable in map(_fields, variables)}
    if path.endswith(_WRAPPER):
        return _group_given(values)
    told = ((name, value) for name, value in values.items() if name in _ARGUMENTS)
    return {name: value for name, value in told if 0 < len(value) <= _ARGUMENT_LENGTH}


def _group_given(values: Dict[str, str]) -> Dict[str, str]:
    """Whether the caller of a collective handed a group in: inside, the default one has taken the empty place.

    torch wraps its collectives (2.1 to 2.13) in a function of ``*args, **kwargs``; their values stay on the node.
    """
    named, placed = values.get("kwargs"), values.get("args")
    if named is None or placed is None:
        return {}
    if "ProcessGroup" in placed or ('"group": ' in named and '"group": None' not in named):
        return {"group_given": "yes"}
    # py-spy cuts long values: what is cut off may be the group
    return {} if "..." in placed or "..." in named else {"group_given": "no"}


def _fields(value: object) -> Dict[str, object]:
    if isinstance(value, dict):
        return value
    raise ValueError("no object")


def _list(value: object) -> List[object]:
    if isinstance(value, list):
        return value
    raise ValueError("no list")


def _integer(value: object) -> int:
    return value if isinstance(value, int) else 0


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
