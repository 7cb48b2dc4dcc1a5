"""known_hosts as OpenSSH looks names up; ssh-keygen is asked where it is here."""

from __future__ import annotations

import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.fleet.ssh.known_hosts import KnownHosts

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGX2bZ0v5V0rW0Wk1lq0T3o1cS1dZyq2h0v9h0nXn3aB"
OTHER = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMf3Zl0N8s3Y5bXq8o0j0W2v6mEw6Z9yq0a7a3Zl3k5P"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "known_hosts"


def blobs(path: Path, name: str) -> list[str]:
    return [key.blob for key in KnownHosts([path]).look(name) if not key.marker]


def test_names_patterns_ports_and_markers(path: Path) -> None:
    path.write_text(
        f"# comment\n\nnode1,10.0.0.1 {KEY} a comment\nnode? {OTHER}\n*.cluster,!bad.cluster {KEY}\n"
        f"[node9]:2222 {KEY}\n[*.cluster]:2200 {OTHER}\n@cert-authority *.ca {KEY}\n@revoked * {OTHER}\n"
        f"@odd node1 {KEY}\nnode1\nnode1 ssh-ed25519\n"
    )
    key, other = KEY.split()[1], OTHER.split()[1]
    assert blobs(path, "node1") == [key, other]
    assert blobs(path, "10.0.0.1") == [key]
    assert blobs(path, "good.cluster") == [key]
    assert blobs(path, "bad.cluster") == []
    assert blobs(path, "[node9]:2222") == [key]
    assert blobs(path, "[node9]:2223") == []
    assert blobs(path, "[a.cluster]:2200") == [other]
    found = KnownHosts([path]).look("host.ca")
    assert sorted((key.marker, key.place) for key in found) == [
        ("@cert-authority", f"{path}:8"), ("@revoked", f"{path}:9"),
    ]  # fmt: skip


def test_several_files_and_files_that_cannot_be_read(path: Path, tmp_path: Path) -> None:
    path.write_text(f"node1 {KEY}\n")
    known = KnownHosts([tmp_path / "none", tmp_path, path])
    assert len(known.look("node1")) == 1


def test_adding_keeps_what_is_there_and_makes_what_is_not(tmp_path: Path) -> None:
    path = tmp_path / "new" / "known_hosts"
    known = KnownHosts([path])
    known.add(path, "node1", KEY, hashed=False)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    path.write_text(path.read_text().rstrip("\n"))  # an editor that leaves out the last line feed
    known.add(path, "[node2]:2222", OTHER, hashed=True)
    assert path.read_text().splitlines()[0] == f"node1 {KEY}"
    assert "node2" not in path.read_text()
    for current in (known, KnownHosts([path])):
        assert [key.blob for key in current.look("[node2]:2222")] == [OTHER.split()[1]]
        assert current.look("node2") == ()


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs OpenSSH's tools to compare with")
def test_ssh_keygen_finds_what_is_added_and_we_find_what_it_hashes(path: Path) -> None:
    known = KnownHosts([path])
    known.add(path, "node1", KEY, hashed=True)
    known.add(path, "[node2]:2222", OTHER, hashed=False)
    for name in ("node1", "[node2]:2222"):
        assert (
            subprocess.run(["ssh-keygen", "-F", name, "-f", str(path)], check=False, capture_output=True).returncode
            == 0
        )
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(path)], check=True, capture_output=True)
    assert "node2" not in path.read_text()
    assert len(blobs(path, "[node2]:2222")) == len(blobs(path, "node1")) == 1


def test_a_name_that_stands_twice_in_a_line_has_one_key(path: Path) -> None:
    path.write_text(f"node1,NODE1 {KEY}\n")
    assert blobs(path, "node1") == [KEY.split()[1]]


@given(st.binary(max_size=400))
def test_any_bytes_can_be_read(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any_known_hosts"
    path.write_bytes(data + f"\nnode1 {KEY}\n".encode())
    assert KEY.split()[1] in blobs(path, "node1")


@given(st.text("ab*?!,.|1", max_size=30), st.text("ab.", min_size=1, max_size=8))
def test_any_pattern_can_be_matched(tmp_path_factory: pytest.TempPathFactory, names: str, host: str) -> None:
    path = tmp_path_factory.getbasetemp() / "pattern_known_hosts"
    path.write_text(f"{names or 'x'} {KEY}\n")
    assert len(blobs(path, host)) <= 1
