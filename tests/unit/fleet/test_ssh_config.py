"""The ssh_config as asyncssh reads it, compared with OpenSSH where its client is here."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from collectors.fleet.ssh.config import HostSettings, SshConfig
from collectors.fleet.transport import SshConfigError

CONFIG = """\
Include {folder}/more/*.conf
Host gpu1 gpu2
  HostName %h.cluster
  Port=2200
  ProxyJump user@jump1:23,jump2
Host "quoted" !no *
  User bob
  IdentityFile "~/.ssh/my key"
  IdentityFile ~/.ssh/two
  ProxyCommand nc -x "a b" %h %p
Match host *.cluster user bob
  Ciphers aes256-ctr
Match final host gpu1.cluster
  Compression yes
"""
INCLUDED = """\
Host gpu1
  HostKeyAlias al
  IdentitiesOnly yes
Match all
  UserKnownHostsFile /a /b
  GlobalKnownHostsFile none
Host gpu2
  User from-include
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "one.conf").write_text(INCLUDED)
    config = tmp_path / "config"
    config.write_text(CONFIG.format(folder=tmp_path))
    return config


def read(path: Path, host: str, user: str | None = None, port: int | None = None) -> HostSettings:
    return SshConfig(path).settings(host, user, port)


@pytest.mark.skipif(shutil.which("ssh") is None, reason="needs OpenSSH's client to compare with")
@pytest.mark.parametrize("host", ["gpu1", "gpu2", "quoted", "no", "elsewhere"])
def test_openssh_reads_the_same(path: Path, host: str) -> None:
    done = subprocess.run(["ssh", "-F", str(path), "-G", host], capture_output=True, text=True, check=True)
    said = {line.partition(" ")[0]: line.partition(" ")[2] for line in done.stdout.splitlines()}
    mine = read(path, host)
    assert said["hostname"] == mine.host.lower()
    assert (said["port"], said["user"]) == (str(mine.port), mine.options.username)
    assert said["compression"] == ("yes" if mine.value("Compression") else "no")
    assert said["identitiesonly"] == ("yes" if mine.value("IdentitiesOnly") else "no")
    assert said.get("hostkeyalias", "") == (mine.value("HostKeyAlias") or "")
    assert said["userknownhostsfile"] == " ".join(map(str, mine.known_hosts))
    assert said.get("proxyjump", "") == ",".join(mine.jumps)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Host a\n  Port x", "config line 2: Invalid Port integer value: x"),
        ("Host b\n  Port 1\nHost a\n  Port x", "config line 4: Invalid Port"),
        ("User", "config line 1: Missing User value"),
        ("\nUser 'a", "config line 2: No closing quotation"),
        ("Match hots a", "config line 1: Invalid match condition hots"),
        ("HostName %q", "Invalid token expansion: q"),
        ("IdentityFile ${HX_NOT_SET}/x", "Invalid environment expansion: HX_NOT_SET"),
        ("AddressFamily 7", "config line 1: Invalid AddressFamily value: 7"),
        ("Include config", "its files include one another"),
        ("RevokedHostKeys /etc/revoked", "config: RevokedHostKeys is not read by hangtop's own SSH: use --via ssh"),
        ("Host b\nInclude none *.d/*", "more.d/x: RevokedHostKeys is not read by hangtop's own SSH: use --via ssh"),
        ('Include "~/.ssh/more.d/y"', "more.d/x: RevokedHostKeys is not read by hangtop's own SSH: use --via ssh"),
    ],
)
def test_what_cannot_be_used_is_said(tmp_path: Path, text: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "config").write_text(text)
    (tmp_path / ".ssh" / "more.d").mkdir()
    (tmp_path / ".ssh" / "more.d" / "y").write_text("include more.d/y more.d/x")
    (tmp_path / ".ssh" / "more.d" / "x").write_text("revokedhostkeys=/etc/revoked")
    with pytest.raises(SshConfigError, match=message):
        SshConfig().settings("a", None, None)
