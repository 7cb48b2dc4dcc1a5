"""The ssh_config as asyncssh reads it, compared with OpenSSH where its client is here."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


def test_first_value_wins_and_blocks_apply_where_they_should(path: Path) -> None:
    one = read(path, "gpu1")
    assert (one.host, one.port, one.user) == ("gpu1.cluster", 2200, "bob")
    assert (one.jumps, one.proxy_command) == (("user@jump1:23", "jump2"), "")
    assert one.identities == (Path("~/.ssh/my key").expanduser(), Path("~/.ssh/two").expanduser())
    assert (one.says("IdentitiesOnly"), one.says("Ciphers"), one.says("Compression")) == (True, "aes256-ctr", True)
    assert (one.known_as, one.known_name) == ("al", "al")
    assert one.known_hosts == (Path("/a"), Path("/b"))

    two = read(path, "gpu2")
    assert (two.user, two.known_name) == ("from-include", "[gpu2.cluster]:2200")
    assert two.says("IdentitiesOnly") is two.says("Compression") is None

    assert read(path, "no").user != "bob", "excluded by the pattern with !"
    other = read(path, "elsewhere")
    assert other.proxy_command == 'nc -x "a b" elsewhere 22'
    assert other.port == 22
    assert (read(path, "gpu1", "eve", 5).user, read(path, "gpu1", "eve", 5).port) == ("eve", 5)


@pytest.mark.skipif(shutil.which("ssh") is None, reason="needs OpenSSH's client to compare with")
@pytest.mark.parametrize("host", ["gpu1", "gpu2", "quoted", "no", "elsewhere"])
def test_openssh_reads_the_same(path: Path, host: str) -> None:
    done = subprocess.run(["ssh", "-F", str(path), "-G", host], capture_output=True, text=True, check=True)
    said = {line.partition(" ")[0]: line.partition(" ")[2] for line in done.stdout.splitlines()}
    mine = read(path, host)
    assert said["hostname"] == mine.host.lower()
    assert (said["port"], said["user"]) == (str(mine.port), mine.user)
    assert said["compression"] == ("yes" if mine.says("Compression") else "no")
    assert said["identitiesonly"] == ("yes" if mine.says("IdentitiesOnly") else "no")
    assert said.get("hostkeyalias", "") == (mine.says("HostKeyAlias") or "")
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
        ("Include config", "more than 16 Include files"),
        ("RevokedHostKeys /etc/revoked", "config:1: RevokedHostKeys is not read by hangtop's own SSH: use --via ssh"),
    ],
)
def test_what_cannot_be_used_is_said(tmp_path: Path, text: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "config").write_text(text)
    with pytest.raises(SshConfigError, match=message):
        SshConfig().settings("a", None, None)


def test_missing_file_is_an_error_only_when_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SshConfigError, match="cannot be read"):
        SshConfig(tmp_path / "none")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert SshConfig().settings("a", None, None).host == "a"


def test_defaults_and_words_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", "/agent")
    config = tmp_path / "config"
    config.write_text("")
    plain = read(config, "a")
    assert (plain.agent, len(plain.identities), plain.jumps) == ("/agent", 3, ())
    config.write_text(
        "IdentityAgent none\nIdentityFile none\nProxyJump none\nProxyCommand none\nUserKnownHostsFile none\n"
        "GlobalKnownHostsFile none\nHostName [fe80::1]\n"
    )
    bare = read(config, "a")
    assert (bare.agent, bare.identities, bare.jumps, bare.proxy_command) == ("", (), (), "")
    assert bare.known_hosts == ()
    assert bare.host == "fe80::1"


@given(st.lists(st.text(alphabet=st.characters(codec="utf-8"), max_size=40), max_size=12))
def test_any_text_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    config = tmp_path_factory.getbasetemp() / "any"
    config.write_text("\n".join(lines), encoding="utf-8", newline="")
    with suppress(SshConfigError):
        assert read(config, "host").original == "host"


def test_an_address_with_an_interface_is_taken_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("Host alias\n  HostName fe80::2%%eth0\n")
    config = SshConfig(path)
    assert config.settings("fe80::1%eth0", "eve", 22).host == "fe80::1%eth0"
    assert config.settings("alias", "eve", 22).host == "fe80::2%eth0"
