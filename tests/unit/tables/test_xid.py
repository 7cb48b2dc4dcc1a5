"""The Xid table: the codes that decide verdicts are of the right kind."""

import pytest

from hangtop.diagnosis.tables.xid import XIDS, xid


def test_each_row_says_what_happened_and_what_to_do() -> None:
    assert all(entry.meaning and entry.action.endswith(".") for entry in XIDS.values())


@pytest.mark.parametrize(
    ("code", "kind"),
    [(79, "hardware"), (48, "hardware"), (119, "hardware"), (13, "application"), (31, "application"),
     (43, "consequence"), (45, "consequence"), (154, "info"), (74, "hardware"), (94, "hardware"), (9999, "driver")],
)  # fmt: skip
def test_kinds_that_decide_verdicts(code: int, kind: str) -> None:
    assert xid(code).kind == kind
