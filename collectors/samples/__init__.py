"""The words that node side, fleet, session and diagnosis share: one NamedTuple per kind of sample.

On the wire a sample is one line, a JSON array of two elements: the sample's kind and its fields in order,
``["GpuSample", [0, 41, null, …]]``. The node side writes it with the standard library, msgspec reads it into the
same NamedTuple here, types checked.

Conventions for every field: ``None`` means *unknown* (never "zero", never "ok"); sizes are bytes, durations seconds and
rates bytes a second unless the comment says otherwise, power watts, clocks of a GPU MHz, temperatures degrees Celsius;
times called ``at`` or ``started`` are the node's wall clock, seconds since the epoch; ``why`` and ``error`` say why
there is nothing else, and are empty where there is. The modules run on the nodes too, on Python 3.8 and newer.

One module a kind of thing that is seen; :mod:`collectors.samples.registry` has them all.
"""

from __future__ import annotations

from typing import List, Union

Scalar = Union[str, int, float, bool, None]
Value = Union[Scalar, List[Scalar]]

MOST_RANK = 1 << 20
"""Ours: no rank has a higher number, and no job more ranks. What a log says beyond is none, and would fill memory."""
MOST_PID = 1 << 32
