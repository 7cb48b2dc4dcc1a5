"""Tables of ``dcgmi diag``: tests that fail, on which GPUs."""

from __future__ import annotations

from pathlib import Path

import pytest

from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.verdict.verdict import diagnose
from hangtop.session.folder import files_session
from tests.support.logs import of_kind, parse

HEAD = (
    "Successfully ran diagnostic for group.\n"
    "+---------------------------+------------------------------------------------+\n"
    "| Diagnostic                | Result                                         |\n"
    "+===========================+================================================+\n"
)


def _row(test: str, result: str) -> str:
    return f"| {test:<26}| {result:<47}|\n"


def _findings(folder: Path, rows: str) -> list[Finding]:
    (folder / "diag.txt").write_text(HEAD + rows)
    return list(diagnose(files_session([folder]).job()).findings)


@pytest.mark.parametrize(
    ("rows", "test", "gpus"),
    [
        (_row("GPU Memory", "Fail - GPU: 0"), "GPU Memory", [0]),
        (_row("PCIe", "Fail - GPUs: 1, 12"), "PCIe", [1, 12]),
        (_row("Diagnostic", "Fail - All"), "Diagnostic", []),
        (_row("Persistence Mode", "Fail"), "Persistence Mode", []),
        (_row("", "GPU3: Fail"), "", [3]),
    ],
)
def test_rows_that_fail(rows: str, test: str, gpus: list[int]) -> None:
    (event,) = of_kind(parse(HEAD + rows), "gpu.test_failed")
    assert (event.data["test"], event.data["gpus"]) == (test, gpus)


def test_a_failed_test_is_told_with_its_gpus(tmp_path: Path) -> None:
    rows = _row("memory", "Pass") + _row("targeted_power", "Fail") + _row("", "GPU0: Pass") + _row("", "GPU3: Fail")
    (finding,) = _findings(tmp_path, rows)
    assert (finding.kind, finding.severity, finding.gpus) == ("gpu_test_failed", "critical", ("node:3",))
    assert "targeted_power" in finding.summary


def test_one_of_the_node_is_a_warning(tmp_path: Path) -> None:
    (finding,) = _findings(tmp_path, _row("Persistence Mode", "Fail"))
    assert (finding.kind, finding.severity, finding.gpus) == ("gpu_test_failed", "warning", ())


@pytest.mark.parametrize(
    "rows",
    [_row("GPU Memory", "Pass - All"), _row("PCIe", "Skip - All"), _row("", "GPU0: Pass"), "| state | Failover |\n"],
)
def test_what_passes_is_told_of_nobody(rows: str, tmp_path: Path) -> None:
    assert _findings(tmp_path, rows) == []
