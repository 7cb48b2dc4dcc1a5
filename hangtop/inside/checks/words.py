"""What is said where ranks meet: the leader asks for more, or concludes."""

from __future__ import annotations

import json
from typing import Any, Callable, Dict, NamedTuple, Sequence, Union

from hangtop.inside.results import Noted

Said = Dict[str, Any]
"""What one rank says in one round; JSON."""


class More(NamedTuple):
    """The leader wants to know more of everybody."""

    request: Said


class Conclusion(NamedTuple):
    """What the leader concludes."""

    summary: str
    findings: Sequence[Noted] = ()


Judge = Callable[[int, Dict[int, Said]], Union[More, Conclusion]]
"""Given the number of the round and what each rank said; the leader alone calls it."""


def encoded(word: Union[More, Conclusion]) -> bytes:
    """As it lies at the store."""
    if isinstance(word, More):
        return json.dumps({"more": word.request}).encode()
    return json.dumps({"summary": word.summary, "findings": [finding.row() for finding in word.findings]}).encode()


def decoded(data: bytes) -> Union[More, Conclusion]:
    """What :func:`encoded` wrote."""
    word = json.loads(data)
    if "more" in word:
        return More(word["more"])
    return Conclusion(word["summary"], [Noted(**row) for row in word["findings"]])
