"""What the README promises about itself: its test command is the one that CI runs, its links and pictures exist."""

from __future__ import annotations

import re

import pytest

from tests.support.readme import ROOT, commands

TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_first_two_commands_install_and_run_and_test() -> None:
    run, test, *_ = commands()
    assert run.endswith(".venv/bin/hangtop demo --fault dataloader")
    assert test.endswith(".venv/bin/pytest -n 2")


def test_ci_runs_the_readme_s_own_test_command() -> None:
    assert commands()[1] in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\]\(([^)#:]+)\)", TEXT))))
def test_what_it_links_to_exists(target: str) -> None:
    assert (ROOT / target).exists()
