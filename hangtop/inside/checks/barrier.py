"""``barrier``: one that ends in time, and names who is absent and where they were."""

from __future__ import annotations

from typing import Any, Dict, Union

from hangtop.inside.checks.meeting import confer, group_of, harmless
from hangtop.inside.checks.words import Conclusion, More, Said
from hangtop.inside.results import CheckResult


@harmless("barrier")
def barrier(seconds: float = 60.0, *, group: Any = None, number: int = 0) -> CheckResult:
    """Wait for all ranks of ``group`` (all of the job without one), ``seconds`` at most.

    At the job's store, so that nothing is left waiting where some do not come. True where all came.
    """
    return confer("barrier", group_of(group), seconds, dict, _judge, None, number)


def _judge(round_: int, said: Dict[int, Said]) -> Union[More, Conclusion]:
    del round_
    return Conclusion("%d rank%s came" % (len(said), "" if len(said) == 1 else "s"))
