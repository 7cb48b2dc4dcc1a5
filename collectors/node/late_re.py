"""The module ``re``, but that :func:`compile` waits until a pattern is used: most of what logs may say they never say.

Import it in the place of ``re`` where a module holds many patterns. To compile 760 of them took half of the node side's
start and megabytes that a node's job has a better use for; on an ordinary node a tenth of them is ever asked.
"""

from __future__ import annotations

from re import *  # noqa: F403 (it is ``re``)
from re import Pattern, RegexFlag
from re import compile as _compile
from typing import Any, AnyStr, Union, cast


class LatePattern:
    """Stands for a pattern; whatever is asked of it the first time compiles it. ``match.re`` is the pattern itself."""

    def __init__(self, pattern: Any, flags: Union[int, RegexFlag]) -> None:
        self.pattern = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        """What the compiled pattern has under this name; from then on it is at hand like any attribute."""
        if name == "compiled":
            self.compiled = _compile(self.pattern, self._flags)
            return self.compiled
        found = getattr(self.compiled, name)
        setattr(self, name, found)
        return found


def compile(  # type: ignore[no-redef]  # noqa: A001 (as in ``re``)
    pattern: AnyStr, flags: Union[int, RegexFlag] = 0
) -> Pattern[AnyStr]:
    """A pattern that is compiled when it is used. Raises :class:`re.error` then, for one that is none."""
    return cast("Pattern[AnyStr]", LatePattern(pattern, flags))
