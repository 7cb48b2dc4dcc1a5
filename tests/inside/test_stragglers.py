"""``stragglers`` over real ranks: the one that needs far longer for the same work is named, its healthy twin is not."""

from __future__ import annotations

from typing import Any

import pytest

from hangtop.inside import stragglers
from hangtop.inside.checks import speed
from hangtop.inside.checks.words import Conclusion, More
from hangtop.inside.results import CheckResult
from tests.support.torch_ranks import run_ranks

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

WORLD = 3
FAR = 8.0
"""Times the others' time: what shares this machine's cores with a rank does not slow it down so much."""


def measured(rank: int, slow: int | None) -> CheckResult:
    """One rank; the slow one does in the time of a product what takes 64 products on the others."""
    speed.LATE = FAR
    if rank == slow:
        speed.WORK *= 4
    return stragglers(5, seconds=50)


@pytest.mark.parametrize("slow", [0, 2])
def test_the_slow_rank_is_named_with_its_figures(slow: int) -> None:
    for result in run_ranks(WORLD, lambda rank: measured(rank, slow)):
        (finding,) = result.findings
        assert (finding.kind, list(finding.ranks)) == ("straggler_rank", [slow])
        assert finding.summary.startswith(f"rank {slow} needs up to ")
        (line,) = finding.evidence
        assert line.startswith(f"rank {slow}: work ")


def test_its_healthy_twin_is_silent() -> None:
    for result in run_ranks(WORLD, lambda rank: measured(rank, None)):
        assert list(result.findings) == []
        assert result.summary.startswith("the same work takes ")
        assert result.summary.endswith(f"on {WORLD} ranks")


def judged(*measured: list[float]) -> list[list[int]]:
    """Whom the leader names after measurements of so many milliseconds by rank; none while it asks for more."""
    judge = speed.StragglerJudging()
    assert judge(0, {rank: {} for rank in range(len(measured[0]))}) == More({"go": True})
    words = [judge(1 + number, {rank: {"times": [[ms / 1e3, 0.0]] * 3} for rank, ms in enumerate(own)})
             for number, own in enumerate(measured)]  # fmt: skip
    assert all(word == More({"go": True}) for word in words[:-1])
    last = words[-1]
    return [list(finding.ranks) for finding in last.findings] if isinstance(last, Conclusion) else [[]]


def test_who_was_late_once_is_measured_again_and_not_named_unless_it_is_so() -> None:
    assert judged([3, 3, 3, 9]) == [[]], "it asks for more"
    assert judged([3, 3, 3, 9], [3, 9, 3, 3]) == []
    assert judged([3, 3, 3, 9], [3, 3, 3, 3]) == []
    assert judged([3, 3, 9, 9], [3, 3, 3, 9]) == [[3]]
    assert judged([3, 3, 3, 3]) == []
    assert judged([3, 3, 9, 9], [3, 3, 9, 9]) == [[2, 3]]
    assert judged([3, 9, 9, 9]) == [], "one that is faster than all others makes nobody late"


def test_what_stands_still_now_and_then_is_late_and_a_hiccup_is_not() -> None:
    throttled, hiccups = [0.003, 0.003, 0.009] * 7, [0.003] * 19 + [0.2] * 2
    assert speed.typical(throttled) > speed.LATE * 0.003
    assert speed.typical(hiccups) == pytest.approx(0.003)
    assert speed.typical([0.003]) == 0.003


def test_of_two_ranks_the_slower_one_is_measured_by_the_other() -> None:
    judge = speed.StragglerJudging()
    said = {0: {"times": [[0.003, 0.0]]}, 1: {"times": [[0.0045, 0.0]]}}
    assert isinstance(judge(1, said), More)
    word = judge(2, said)
    assert isinstance(word, Conclusion)
    assert word.findings[0].summary == "rank 1 needs up to 1.5 times as long as the others for the same work"


def test_a_gpu_is_given_more_than_the_time_of_a_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    multiplied: list[Any] = []

    class Torch:
        @staticmethod
        def ones(*size: int, device: Any) -> tuple[int, ...]:
            made.append(device)
            return size

        @staticmethod
        def mm(one: Any, other: Any, out: Any) -> None:
            multiplied.append((one, other, out))

    gpu = torch.device("cuda", 3)
    speed._work(Torch, gpu)()
    assert made == [gpu, gpu]
    assert multiplied == [((2048, 2048),) * 3] * 8
