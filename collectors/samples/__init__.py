"""The data types that node side, fleet, session and diagnosis share: one NamedTuple per kind of sample.

On the wire a line is a JSON array: the name of a kind, then an array of fields for each sample of that kind,
``["GpuSample",[0,41,null,…],[1,43,null,…]]``. The node side writes it with the standard library (``wire.py``); msgspec
decodes each row into the same NamedTuple and checks its types.

Conventions for every field: ``None`` means *unknown* (never "zero", never "ok"); sizes are bytes, durations seconds and
rates bytes per second unless the field's docstring says otherwise, power watts, GPU clocks MHz, temperatures degrees
Celsius; times called ``at`` or ``started`` are the node's wall clock, seconds since the epoch; ``why`` and ``error``
give the reason when a sample has no data, and are empty otherwise. The modules also run on the nodes (Python 3.8).

Each module covers one subject; :mod:`collectors.samples.registry` lists every kind that a stream carries.
"""

from __future__ import annotations

from typing import List, Union

Scalar = Union[str, int, float, bool, None]
Value = Union[Scalar, List[Scalar]]

MOST_RANK = 1 << 20
"""Ours: the highest rank and the largest world size that are accepted; larger numbers in a log would fill memory."""
MOST_PID = 1 << 32
