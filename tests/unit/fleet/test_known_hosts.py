"""known_hosts as OpenSSH reads and writes it; ssh-keygen is asked where it is here."""

from __future__ import annotations

import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from collectors.fleet.ssh.known_hosts import append, read_known_hosts
from tests.support.ssh_server import key, public


def found(path: Path, name: str) -> int:
    """Number of the keys of a name."""
    return len(read_known_hosts([path]).match(name, "", None)[0])


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs OpenSSH's tools to compare with")
def test_what_is_added_is_found_and_the_rest_stays(tmp_path: Path) -> None:
    path = tmp_path / "new" / "known_hosts"
    append(path, "node1", key("a"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    path.write_text(path.read_text().rstrip("\n"))  # an editor that leaves out the last line feed
    append(path, "[node2]:2222", key("b"))
    assert path.read_text().splitlines()[0] == f"node1 {public('a')}"
    for name in ("node1", "[node2]:2222"):
        assert found(path, name) == 1
        words = ["ssh-keygen", "-F", name, "-f", str(path)]
        assert subprocess.run(words, check=False, capture_output=True).returncode == 0
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(path)], check=True, capture_output=True)
    assert found(path, "node1") == found(path, "[node2]:2222") == 1
    assert found(path, "node2") == 0


@pytest.mark.parametrize("names", [",", "node1,", ",node1", "node1,,node2"])
def test_an_empty_name_is_no_name_of_every_host(tmp_path: Path, names: str) -> None:
    path = tmp_path / "known_hosts"
    path.write_text(f"{names} {public('a')}\n@cert-authority {names} {public('a')}\n")
    assert found(path, "other") == 0
    assert read_known_hosts([path]).match("other", "", None)[1] == []
