"""The filter that drops unchanged samples."""

from __future__ import annotations

from typing import Dict, Iterable, List, NamedTuple, Optional, Tuple

from collectors.samples import ranks
from collectors.samples.registry import IDENTITY

_OF_PROCESSES = tuple(kind for kind in IDENTITY if kind.__module__ == ranks.__name__)
"""Kinds whose first field is the pid of their process."""
Key = Tuple[object, ...]


def identity(sample: NamedTuple) -> Optional[Key]:
    """Key of a sample, equal for samples that replace each other; None for an event."""
    kind = type(sample)
    fields = IDENTITY.get(kind)
    return None if fields is None else (kind, *[sample[field] for field in fields])


class ChangeFilter:
    """Passes a sample only if it differs from the last one with the same identity."""

    def __init__(self) -> None:
        self._last: Dict[Key, NamedTuple] = {}

    def changed(self, samples: Iterable[NamedTuple]) -> List[NamedTuple]:
        """Events and changed samples, in order."""
        news: List[NamedTuple] = []
        for sample in samples:
            key = identity(sample)
            if key is None:
                if isinstance(sample, ranks.ProcessGone):
                    self._forget_process(sample[0])
            elif self._last.get(key) == sample:
                continue
            else:
                self._last[key] = sample
            news.append(sample)
        return news

    def forget(self, sample: NamedTuple) -> None:
        """Let this sample pass again, because it was not sent."""
        key = identity(sample)
        if key is not None:
            self._last.pop(key, None)

    def _forget_process(self, pid: object) -> None:
        for key in [key for key in self._last if key[0] in _OF_PROCESSES and key[1] == pid]:
            del self._last[key]
