"""Calls of torch that a job over NCCL makes, with torch's own file names and lines, so that a stack looks like one.

What they do is launch a kernel in the C library; torch's own would ask for a real GPU.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

_ALL_REDUCE = """
def all_reduce(tensor, group, launch=None):
    return launch(tensor, group)
"""
_WRAPPER = """
def wrapper(*args, **kwargs):
    return func(*args, **kwargs)
"""


def _compiled(source: str, path: str, line: int, names: dict[str, object]) -> Callable[..., Any]:
    """The function of ``source`` as if its call stood in ``line`` of ``path``."""
    tree = ast.parse(source)
    ast.increment_lineno(tree, line - 3)
    space = dict(names)
    exec(compile(tree, path, "exec"), space)
    made: Callable[..., Any] = space[tree.body[0].name]  # type: ignore[attr-defined, assignment]
    return made


def _last_line(module: ModuleType, name: str) -> int:
    """Where torch's function ends: that is where it calls into C++."""
    lines, first = inspect.getsourcelines(inspect.unwrap(getattr(module, name)))
    return first + len(lines) - 1


def all_reduce(launch: Callable[[Any, Any], object]) -> Callable[..., object]:
    """``torch.distributed.all_reduce`` that launches with ``launch``."""
    from torch.distributed import distributed_c10d as module

    line = _last_line(module, "all_reduce")
    return _logged(_compiled(_ALL_REDUCE.replace("=None", "=launch"), module.__file__, line, {"launch": launch}))


def _logged(function: Callable[..., object]) -> Callable[..., object]:
    """In the wrapper that torch puts around every collective."""
    from torch.distributed import c10d_logger as module

    line = _last_line(module, "_exception_logger") - 7
    return _compiled(_WRAPPER, module.__file__, line, {"func": function})
