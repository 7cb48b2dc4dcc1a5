"""A user whose key the servers of these tests accept."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.ssh_server import Home, home


@pytest.fixture
def user(tmp_path: Path) -> Home:
    made = home(tmp_path)
    made.lines.append(f"IdentityFile {made.key('user')}")
    return made
