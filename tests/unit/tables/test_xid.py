"""The Xid table: complete, and the codes that decide verdicts are of the right kind."""

import pytest

from hangtop.diagnosis.tables.xid import XIDS, xid


def test_the_catalogue_is_complete() -> None:
    assert sorted(XIDS) == list(range(1, 173))
    assert all(entry.meaning and entry.action.endswith(".") for entry in XIDS.values())


@pytest.mark.parametrize(
    ("code", "kind"),
    [(79, "hardware"), (48, "hardware"), (119, "hardware"), (13, "application"), (31, "application"),
     (43, "consequence"), (45, "consequence"), (154, "info"), (74, "hardware"), (94, "hardware")],
)  # fmt: skip
def test_kinds_that_decide_verdicts(code: int, kind: str) -> None:
    assert xid(code).kind == kind


def test_an_unknown_code_says_so() -> None:
    assert "does not know" in xid(9999).meaning
