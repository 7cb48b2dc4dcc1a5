"""Bounds of the values in a node's stream, checked while the stream is decoded.

The samples are plain NamedTuples for Python 3.8, whose annotations hold no bounds. This module adds the bounds to the
annotations before the first decoder of a kind is made. msgspec then checks them at no extra cost; a sample with a
value out of bounds does not decode and becomes a bad line.
"""

from __future__ import annotations

from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from msgspec import Meta

from collectors.samples import MOST_PID, MOST_RANK

TEXT = 4096
"""Characters of one text."""
FRAME_TEXT = 16384
"""Characters of one text in a stack: names of C++ functions are long."""
ENCODED_TEXT = 96 << 20
"""Characters of a file in base64: 64 MiB are about 90 million characters."""
ITEMS = 65536
"""Entries of a list or of a mapping."""
FIRST_MOMENT, LAST_MOMENT = -1e10, 2.534e11
"""Times in seconds since 1970: the years 1653 to 9999, which Python's datetime can represent."""
SECONDS = Annotated[float, Meta(ge=-1e15, le=1e15)]
NUMBER = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]

TIMES = frozenset(("at", "since", "started", "booted", "modified", "step_at", "phase_at"))
"""Names of fields that are times of the node's clock."""
_ROWS: tuple[tuple[type, float, float, str], ...] = (
    (float, FIRST_MOMENT, LAST_MOMENT, " ".join(TIMES)),
    (float, 0.0, 1e10, "clock"),  # the node's clock: up to the year 2286
    (int, -1, MOST_RANK, "rank local_rank world_size local_world_size global_rank"),
    (int, -1, MOST_PID, "pid own_pid rank_pid parent"),
    (int, -1, 1023, "gpu link"),  # no node has a thousand
    (int, -1, 65535, "port master_port"),
    (int, 0, 100, "utilization memory_utilization"),
    (int, -100, 1000, "temperature memory_temperature"),
    (float, 0.0, 1e5, "power power_limit"),
    (int, 0, 1 << 20, "sm_clock sm_clock_max"),
    (int, 1, 1 << 20, "cpus"),
    (int, 0, 1 << 60, "memory_total memory_used memory_available"),
)
FIELDS: dict[str, Any] = {
    name: Annotated[kind, Meta(ge=low, le=high)] for kind, low, high, names in _ROWS for name in names.split()
}
"""Bounds of numbers, by field name."""
_LONG = frozenset(("Frame", "ThreadStack", "StackDump", "Observation"))
"""Kinds of samples with longer texts: stacks, and observations, which quote tools."""
_ENCODED = {"RecorderFile": "data", "RasAnswer": "data", "FlameRecording": "stacks"}
"""Fields that hold a file in base64."""


def bind(kind: type) -> None:
    """Put bounds into the annotations of a kind of sample and of the kinds that it contains. Safe to call twice."""
    if "__bounded__" in vars(kind):
        return
    text = Annotated[str, Meta(max_length=FRAME_TEXT if kind.__name__ in _LONG else TEXT)]
    hints = get_type_hints(kind)
    annotations = {name: _bounded(hint, FIELDS.get(name), text) for name, hint in hints.items()}
    if kind.__name__ in _ENCODED:
        annotations[_ENCODED[kind.__name__]] = Annotated[str, Meta(max_length=ENCODED_TEXT)]
    kind.__bounded__ = True  # type: ignore[attr-defined]
    kind.__annotations__ = annotations
    if "__msgspec_cache__" in vars(kind):  # a decoder of this kind was made before
        del kind.__msgspec_cache__  # type: ignore[attr-defined]


def _bounded(hint: Any, number: Any, text: Any) -> Any:
    if hint is int:
        return number if number is not None and get_args(number)[0] is int else NUMBER
    if hint is float:
        return number if number is not None and get_args(number)[0] is float else SECONDS
    if hint is str:
        return text
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return Union[tuple(_bounded(part, number, text) for part in parts)]  # noqa: UP007 - parts known at run time
    if origin is list:
        return Annotated[list[_bounded(parts[0], number, text)], Meta(max_length=ITEMS)]  # type: ignore[misc]
    if origin is dict:
        values = _bounded(parts[1], number, text)
        return Annotated[dict[text, values], Meta(max_length=ITEMS)]  # type: ignore[valid-type]
    if isinstance(hint, type) and hasattr(hint, "_fields"):
        bind(hint)
    return hint
