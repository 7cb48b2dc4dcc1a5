"""Profiler traces (Chrome's trace event JSON as Kineto and torch.profiler write it), plain or gzip, of any size.

The same reader as on the nodes (``collectors.probes.remote.trace``).
"""

from __future__ import annotations

from collections.abc import Callable

from collectors.fleet.clean import clean_value
from collectors.formats import BadFormat
from collectors.probes.remote.trace import of_file, reduced
from collectors.probes.remote.trace_events import BadTrace, looks_like
from collectors.samples.traces import RankTrace

__all__ = ["looks_like", "of_stream", "read"]


def read(path: str, advance: Callable[[], None] = lambda: None) -> RankTrace:
    """The figures of the trace in a file; one that cannot be read, or not to its end, says why.

    ``advance`` is called between reads; what it raises ends the reading.
    """
    cleaned: RankTrace = clean_value(of_file(path, advance))
    return cleaned


def of_stream(read: Callable[[int], bytes], path: str) -> RankTrace:
    """The figures of a trace that is read piece by piece. Raises :class:`BadFormat` when it is no trace."""
    try:
        cleaned: RankTrace = clean_value(reduced(read, path))
    except BadTrace as error:
        raise BadFormat(str(error)) from error
    return cleaned
