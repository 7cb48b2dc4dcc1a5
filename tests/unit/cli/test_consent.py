"""What is said before something runs on nodes."""

from __future__ import annotations

import pytest

from hangtop.cli.consent import confirm
from tests.support.jobs import Sketch


def test_the_command_is_shown_with_its_nodes_and_not_where_none_can_be_reached(
    capsys: pytest.CaptureFixture[str],
) -> None:
    job = Sketch().job()
    confirm("probe it", ["node9", "node8"], job, yes=True)
    assert capsys.readouterr().err == "on node8, node9: probe it\n"
    confirm("probe it", [], job, yes=True)
    assert capsys.readouterr().err == ""
