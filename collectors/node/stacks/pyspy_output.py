"""Parses py-spy's output: threads and frames, or the reason why there are none."""

from __future__ import annotations

import json
import re
from typing import Any, Dict, List, NamedTuple, Optional

from collectors.node import files
from collectors.samples.stacks import Frame, ThreadStack

_ARGUMENTS = frozenset(("src", "dst", "group"))
_ARGUMENT_FILES = ("torch/distributed/", "deepspeed/comm/", "megatron/core/")
_ARGUMENT_LENGTH = 160
_WRAPPER = "torch/distributed/c10d_logger.py"
_NATIVE_NAME_LENGTH = 200
"""Names of C++ templates run to kilobytes."""


class DumpFailure(NamedTuple):
    """Why there are no frames: one of the words of :class:`collectors.samples.stacks.StackDump`, and the message."""

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
"""The first matching pattern wins: "Failed to get stack traces" may also contain "Permission denied"."""


def failure(stderr: bytes) -> DumpFailure:
    """Parse py-spy's error output."""
    said = files.text(stderr).partition("Stack backtrace:")[0]
    lines = [" ".join(line.split()) for line in said.splitlines()]
    errors = [line.partition("Error: ")[2] if line.startswith("Error: ") else line for line in lines]
    text = "; ".join(dict.fromkeys(line for line in errors if line and line != "Caused by:"))[:600]
    for sign, word in _SIGNS:
        if re.search(sign, said):
            return DumpFailure(word, text)
    return DumpFailure("failed", text or "py-spy said nothing")


def threads(output: bytes, pid: int, own_pid: Optional[int]) -> List[ThreadStack]:
    """Threads of a JSON dump. Raises :class:`ValueError` for malformed output.

    ``own_pid`` is the pid in the process's own PID namespace, which is the thread id of its main thread in Python.
    """
    try:
        return [_thread(thread, pid, own_pid) for thread in json.loads(output)]
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError("no dump: %r" % error) from error


def _thread(thread: Dict[str, Any], pid: int, own_pid: Optional[int]) -> ThreadStack:
    system_id = thread["os_thread_id"]
    return ThreadStack(
        int(thread["thread_id"]),
        pid if system_id == own_pid is not None else None if system_id is None else int(system_id),
        str(thread["thread_name"] or ""),
        bool(thread["active"]),
        bool(thread["owns_gil"]),
        [_frame(frame) for frame in thread["frames"]],
    )


def _frame(frame: Dict[str, Any]) -> Frame:
    name, path, line = str(frame["name"]), str(frame["filename"]), int(frame["line"] or 0)
    if frame["module"] is not None:  # only native frames have a module, the path of their library
        return Frame(name[:_NATIVE_NAME_LENGTH], path, line, True)
    return Frame(name, path, line, False, _arguments(path, frame["locals"] or []))


def _arguments(path: str, variables: List[Dict[str, Any]]) -> Dict[str, str]:
    """The local variables that may leave the node (see ``Frame.arguments``)."""
    if not any(part in path for part in _ARGUMENT_FILES):
        return {}
    values = {str(variable["name"]): str(variable["repr"] or "") for variable in variables}
    if path.endswith(_WRAPPER):
        return _group_given(values)
    chosen = ((name, value) for name, value in values.items() if name in _ARGUMENTS)
    return {name: value for name, value in chosen if 0 < len(value) <= _ARGUMENT_LENGTH}


def _group_given(values: Dict[str, str]) -> Dict[str, str]:
    """Whether the caller of a collective passed a group; inside the collective, ``group`` already holds the default.

    torch (2.1 to 2.13) wraps its collectives in a function of ``*args, **kwargs``; their values stay on the node.
    """
    named, placed = values.get("kwargs"), values.get("args")
    if named is None or placed is None:
        return {}
    if "ProcessGroup" in placed or ('"group": ' in named and '"group": None' not in named):
        return {"group_given": "yes"}
    # py-spy truncates long values: the missing part may contain the group
    return {} if "..." in placed or "..." in named else {"group_given": "no"}
