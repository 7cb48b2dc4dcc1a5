"""The ssh_config as OpenSSH reads it; where ssh is here, it is asked itself."""

from __future__ import annotations

import shutil
import socket
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.fleet.ssh.config import SshConfig
from collectors.fleet.ssh.settings import HostSettings, Jump, settings_of
from collectors.fleet.ssh.words import SshConfigError

CONFIG = """\
Include {folder}/more/*.conf
Host gpu1 gpu2
  HostName %h.cluster
  Port=2200
  ProxyJump user@jump1:23,jump2
Host "quoted" !no *
  User bob # comment
  IdentityFile "~/.ssh/my key"
  IdentityFile ~/.ssh/two
  ProxyCommand nc -x "a b" %h %p # no comment
Match host *.cluster user bob
  StrictHostKeyChecking accept-new
Match originalhost gpu2 exec "test %n = gpu2"
  ConnectTimeout 1m30s
Match !host *.cluster exec false
  Port 99
Match final host gpu1.cluster
  Compression yes
"""
INCLUDED = """\
Host gpu1
  HostKeyAlias al
  Include {folder}/inner.conf
  BatchMode yes
Match all
  UserKnownHostsFile /a /b
  GlobalKnownHostsFile none
Host gpu2
  User from-include
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "one.conf").write_text(INCLUDED.format(folder=tmp_path))
    (tmp_path / "inner.conf").write_text(
        "IdentitiesOnly yes\nHost other\n  Port 7\nMatch originalhost gpu*\nCheckHostIP no\n"
    )
    config = tmp_path / "config"
    config.write_text(CONFIG.format(folder=tmp_path))
    return config


def read(path: Path, host: str, user: str | None = None, port: int | None = None) -> HostSettings:
    return settings_of(SshConfig.load(path), host, user, port)


def test_first_value_wins_and_blocks_apply_where_they_should(path: Path) -> None:
    one = read(path, "gpu1")
    assert (one.hostname, one.port, one.user) == ("gpu1.cluster", 2200, "bob")
    assert one.jumps == (Jump("jump1", "user", 23), Jump("jump2", None, None))
    assert one.proxy_command == "", "the jump came first"
    assert one.identity_files == (Path("~/.ssh/my key").expanduser(), Path("~/.ssh/two").expanduser())
    assert (one.strict, one.compression, one.batch) == ("accept-new", True, True)
    assert one.identities_only
    assert one.known_as == "al"
    assert one.user_known_hosts == (Path("/a"), Path("/b"))
    assert one.global_known_hosts == ()
    assert one.timeout is None

    two = read(path, "gpu2")
    assert (two.user, two.timeout, two.compression) == ("from-include", 90.0, False)
    assert not two.identities_only

    assert read(path, "no").user != "bob", "excluded by the pattern with !"
    other = read(path, "elsewhere")
    assert other.proxy_command == 'nc -x "a b" elsewhere 22 # no comment'
    assert other.port == 22, "the block inside the include belongs to gpu1 and other"


def test_command_line_goes_before_the_file(path: Path) -> None:
    assert (read(path, "gpu1", "eve", 5).user, read(path, "gpu1", "eve", 5).port) == ("eve", 5)


@pytest.mark.skipif(shutil.which("ssh") is None, reason="needs OpenSSH's client to compare with")
@pytest.mark.parametrize("host", ["gpu1", "gpu2", "quoted", "no", "elsewhere", "other", "GPU1"])
def test_openssh_reads_the_same(path: Path, host: str) -> None:
    done = subprocess.run(["ssh", "-F", str(path), "-G", host], capture_output=True, text=True, check=True)
    said = {line.partition(" ")[0]: line.partition(" ")[2] for line in done.stdout.splitlines()}
    mine = read(path, host)
    assert said["hostname"] == mine.hostname.lower()
    assert said["port"] == str(mine.port)
    assert said["user"] == mine.user
    assert said["compression"] == ("yes" if mine.compression else "no")
    assert said["batchmode"] == ("yes" if mine.batch else "no")
    assert said["identitiesonly"] == ("yes" if mine.identities_only else "no")
    assert said["connecttimeout"] == ("none" if mine.timeout is None else f"{mine.timeout:.0f}")
    assert said.get("hostkeyalias", "") == mine.host_key_alias
    assert said["userknownhostsfile"] == " ".join(map(str, mine.user_known_hosts))
    assert said["stricthostkeychecking"] == {"ask": "ask", "accept-new": "accept-new"}[mine.strict]
    jumps = [
        f"{jump.user + '@' if jump.user else ''}{jump.host}{f':{jump.port}' if jump.port else ''}"
        for jump in mine.jumps
    ]
    assert said.get("proxyjump", "") == ",".join(jumps)


@pytest.mark.skipif(shutil.which("ssh") is None, reason="needs OpenSSH's client to compare with")
@pytest.mark.parametrize(
    "data",
    [
        b"HostName a.example\0 and more\nUser eve\n", b"UserKnownHostsFile ~/x\0y /k\nUser eve\n",
        b"User a\r\nHostName b\r\n", b"User a\x0c\nHostName b\n", b"\0\nUser eve\n",
    ],
)  # fmt: skip
def test_openssh_ends_lines_at_the_same_bytes(tmp_path: Path, data: bytes) -> None:
    config = tmp_path / "config"
    config.write_bytes(data)
    done = subprocess.run(["ssh", "-F", str(config), "-G", "gpu1"], capture_output=True, text=True, check=False)
    said = {line.partition(" ")[0]: line.partition(" ")[2] for line in done.stdout.splitlines()}
    try:
        mine = read(config, "gpu1")
    except SshConfigError:
        assert done.returncode == 255, done.stdout
        return
    assert done.returncode == 0, done.stderr
    assert (said["hostname"], said["user"]) == (mine.hostname, mine.user)
    assert said["userknownhostsfile"] == " ".join(map(str, mine.user_known_hosts))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Host a\n  Port x", "config:2: 'x' is no value for port"),
        ("Port 0", "config:1"),
        ("Port 70000", "config:1"),
        ("User", "config:1: user without a value"),
        ("\nUser 'a", "config:2: a quote is not closed"),
        ("Match hots a", "config:1: Match knows no criterion 'hots'"),
        ("Match host", "config:1: Match host without a pattern"),
        ("!@#", "config:1"),
        ("HostName %q", "%q means nothing"),
        ("IdentityFile ${HX_NOT_SET}/x", "the environment has no HX_NOT_SET"),
        ("StrictHostKeyChecking perhaps", "'perhaps' is no value for stricthostkeychecking"),
        ("ProxyJump a:b:c", "is no value for proxyjump"),
        ("AddressFamily 7", "is no value for addressfamily"),
        ("ConnectTimeout soon", "is no value for connecttimeout"),
        ("BatchMode maybe", "is no value for batchmode"),
        ("Include config", "more than 16 Include files"),
        ("Include ~nobody-of-that-name/config", "config:1: nobody's home is known for '~nobody"),
    ],
)
def test_what_cannot_be_used_is_said_with_its_place(
    tmp_path: Path, text: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    config = tmp_path / ".ssh" / "config"
    config.write_text(text)
    with pytest.raises(SshConfigError, match=message.replace("(", r"\(")):
        settings_of(SshConfig.load(), "a")


def test_missing_file_is_an_error_only_when_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SshConfigError, match="cannot be read"):
        SshConfig.load(tmp_path / "none")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert settings_of(SshConfig.load(), "a").hostname == "a"


def test_defaults_and_words_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", "/agent")
    plain = settings_of(SshConfig(()), "a")
    assert plain.agent == "/agent"
    assert not plain.identities_named
    assert plain.strict == "ask"
    config = tmp_path / "config"
    config.write_text(
        "IdentityAgent none\nIdentityFile none\nProxyJump none\nProxyCommand none\nUserKnownHostsFile none\n"
        "AddressFamily inet\nCiphers aes256-ctr\nPreferredAuthentications password,publickey\nHostName [fe80::1]\n"
    )
    bare = read(config, "a")
    assert (bare.agent, bare.identity_files, bare.jumps, bare.proxy_command) == ("", (), (), "")
    assert bare.identities_named
    assert bare.user_known_hosts == ()
    assert bare.family == socket.AF_INET
    assert bare.algorithms == (("encryption_algs", "aes256-ctr"),)
    assert bare.preferred == ("password", "publickey")
    assert bare.hostname == "fe80::1"


@given(st.lists(st.text(alphabet=st.characters(codec="utf-8"), max_size=40), max_size=12))
def test_any_text_is_read_or_refused_with_its_place(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    config = tmp_path_factory.getbasetemp() / "any"
    config.write_text("\n".join(lines), encoding="utf-8", newline="")
    with suppress(SshConfigError):
        assert read(config, "host").original == "host"


def test_an_address_with_an_interface_is_taken_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("Host alias\n  HostName fe80::2%%eth0\n")
    config = SshConfig.load(path)
    assert settings_of(config, "fe80::1%eth0", "eve", 22).hostname == "fe80::1%eth0"
    assert settings_of(config, "alias", "eve", 22).hostname == "fe80::2%eth0"
