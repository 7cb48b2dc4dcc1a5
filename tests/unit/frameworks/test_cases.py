"""The judge of the cases with real frameworks: what counts as right, and the table that is made of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.frameworks import table
from benchmarks.frameworks.cases import Case, plan
from benchmarks.frameworks.play import judge

PIDS = {0: 100, 1: 101, 2: 102}


def _case(name: str) -> Case:
    return next(case for case in plan() if case.name == name)


def _finding(kind: str = "rank_stuck_in_data", *, ranks: tuple[int, ...] = (), pids: tuple[int, ...] = (),
             severity: str = "critical") -> dict[str, Any]:  # fmt: skip
    return {"kind": kind, "severity": severity, "ranks": list(ranks), "processes": [f"vm:{pid}" for pid in pids],
            "summary": "something"}  # fmt: skip


def _answer(verdict: str, *findings: dict[str, Any]) -> dict[str, Any]:
    return {"verdict": verdict, "findings": list(findings), "summary": "something"}


READER = _case("mp.spawn/reader")
HEALTHY = _case("mp.spawn/healthy")


@pytest.mark.parametrize("finding", [_finding(ranks=(1,)), _finding(pids=(101,))])
def test_the_rank_or_its_process_is_right(finding: dict[str, Any]) -> None:
    assert judge(READER, _answer("hung", finding), PIDS) == ""


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (_answer("healthy"), "verdict healthy"),
        (_answer("hung"), "no finding"),
        (_answer("hung", _finding("job_stalled", ranks=(1,))), "kind job_stalled"),
        (_answer("hung", _finding(ranks=(0,))), "ranks [0], []"),
        (_answer("hung", _finding(ranks=(1, 2))), "ranks [1, 2], []"),
        (_answer("hung", _finding(pids=(100,))), "ranks [], ['vm:100']"),
        (_answer("hung", _finding(ranks=(0,), pids=(101,))), "ranks [0], ['vm:101']"),
    ],
)
def test_anything_else_is_wrong(answer: dict[str, Any], why: str) -> None:
    assert judge(READER, answer, PIDS) == why


def test_of_two_ranks_in_different_operations_neither_is_odd() -> None:
    case = _case("Ray Train/only_here")
    assert judge(case, _answer("hung", _finding("collective_mismatch", ranks=(0, 1))), PIDS) == ""
    assert judge(case, _answer("hung", _finding("collective_mismatch", ranks=(1,))), PIDS) != ""


def test_a_healthy_job_may_be_unknown_and_badly_configured() -> None:
    config = _finding("env_unknown", severity="warning")
    remark = _finding("waiting", ranks=(0,), severity="info")
    assert judge(HEALTHY, _answer("healthy", config, remark), PIDS) == ""
    assert judge(HEALTHY, _answer("unknown"), PIDS) == ""


def test_a_healthy_job_must_not_be_accused() -> None:
    assert judge(HEALTHY, _answer("hung", _finding(ranks=(1,))), PIDS).startswith("accused")
    assert judge(HEALTHY, _answer("healthy", _finding(ranks=(1,), severity="warning")), PIDS).startswith("accused")


def test_every_framework_has_a_healthy_twin_and_its_culprits_exist() -> None:
    cases = plan()
    assert len(cases) >= 30
    for framework in {case.framework for case in cases}:
        own = [case for case in cases if case.framework == framework]
        assert any(not case.mishap.kinds for case in own), framework.name
        assert all(case.culprit < framework.ranks for case in own), framework.name


def test_the_table_replaces_only_what_is_between_its_marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "accuracy.md"
    monkeypatch.setattr(table, "PAGE", page)
    page.write_text("# Right?\n\n## Logs\n\nmany\n")
    row = {"framework": "JAX", "version": "1", "mishap": "SIGSTOP", "culprit": 1, "said": "hung", "right": True}
    healthy = {**row, "culprit": None, "mishap": "nothing", "said": "healthy"}
    table.write([row, healthy], ())
    page.write_text(page.read_text() + "\n## Below\n")
    table.write([{**row, "right": False}, healthy], ("DeepSpeed was not built.",))
    text = page.read_text()
    assert text.startswith("# Right?\n\n## Logs\n\nmany\n\n## Real frameworks\n")
    assert text.count(table.BEGIN) == text.count(table.END) == 1
    assert text.endswith("## Below\n")
    assert "2 cases: 0 of 1 faults named right (0 %), 0 of 1 healthy jobs accused. Played at " in text
    assert "\nDeepSpeed was not built." in text
    assert "| JAX | 1 | SIGSTOP | 1 | hung | **wrong** |" in text
    assert "| JAX | 1 | nothing |  | healthy | right |" in text
