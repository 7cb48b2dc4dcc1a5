"""The registry of kinds: one row a kind, documented, and no way around it."""

from __future__ import annotations

import pytest

from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.tables.kinds import KINDS, ROWS, UnknownKind, kind_row
from hangtop.diagnosis.verdict.ranking import rank_findings


def test_each_kind_has_one_row() -> None:
    assert len(KINDS) == len(ROWS)


def test_what_a_kind_explains_has_rows_too() -> None:
    explained = {kind for row in ROWS for effects in row.explains for kind in effects.kinds}
    assert explained <= KINDS.keys()


def test_a_kind_without_a_row_is_a_fault_and_never_passes_for_healthy() -> None:
    with pytest.raises(UnknownKind, match="no kind of finding is called 'rank_sulks'"):
        kind_row("rank_sulks")
    with pytest.raises(UnknownKind):
        rank_findings([Finding("rank_sulks", "critical", 0.9, "rank 3 sulks")])
