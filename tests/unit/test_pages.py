"""The pages that are made from rows are as the rows are now."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"
ROOT = DOCS.parent


@pytest.fixture(scope="module")
def maker() -> dict[str, Any]:
    return runpy.run_path(str(DOCS / "make_pages.py"))


def test_the_page_of_findings_is_made_from_the_rows(maker: dict[str, Any]) -> None:
    page = (DOCS / "findings.md").read_text(encoding="utf-8")
    assert len(maker["MADE"].findall(page)) == 2
    assert maker["findings_page"](page) == page, "run docs/make_pages.py"


def test_the_page_of_log_events_is_made_from_the_rows(maker: dict[str, Any]) -> None:
    assert maker["log_events_page"]() == (DOCS / "log-events.md").read_text(encoding="utf-8"), "run docs/make_pages.py"


def test_the_man_page_is_made_from_the_commands() -> None:
    """In a process of its own: click remembers in each command how its help was asked for first."""
    made = "import runpy; print(runpy.run_path('docs/make_pages.py')['man_page'](), end='')"
    done = subprocess.run([sys.executable, "-c", made], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == (DOCS / "hangtop.1").read_text(encoding="utf-8"), "run docs/make_pages.py"


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/architecture.md", "README.md"])
def test_every_source_file_that_a_page_names_is_there(page: str) -> None:
    """By the end of its path: pages write ``waits/graph.py`` for ``hangtop/diagnosis/waits/graph.py``."""
    named = set(re.findall(r"`([\w./-]+\.(?:py|toml|md))`", (ROOT / page).read_text(encoding="utf-8")))
    files = [f"/{path.relative_to(ROOT)}" for top in ("collectors", "docs", "hangtop", "tests", "tui", "benchmarks")
             for path in (ROOT / top).rglob("*.*")]  # fmt: skip
    files += ["/pyproject.toml", "/CONTRIBUTING.md"]
    assert not sorted(name for name in named if not any(file.endswith(f"/{name}") for file in files))
