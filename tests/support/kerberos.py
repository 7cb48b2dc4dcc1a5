"""A realm of its own: a real KDC, a user's ticket, and an sshd that believes tickets alone."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tests.support.cluster_node import sshd_binary

PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit", "kdestroy")
REALM = "LAB.TEST"
PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"
_CLIENT = """\
[libdefaults]
 default_realm = {realm}
 dns_lookup_realm = false
 dns_lookup_kdc = false
 dns_canonicalize_hostname = false
 rdns = false
[realms]
 {realm} = {{
  kdc = 127.0.0.1:{port}
 }}
[domain_realm]
 localhost = {realm}
"""
_KDC = """\
[kdcdefaults]
 kdc_listen = 127.0.0.1:{port}
 kdc_tcp_listen = 127.0.0.1:{port}
[realms]
 {realm} = {{
  database_name = {folder}/principal
  key_stash_file = {folder}/stash
 }}
"""
_SSHD = """\
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host_key
PidFile none
GSSAPIAuthentication yes
GSSAPIStrictAcceptorCheck no
PubkeyAuthentication no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
UsePAM no
StrictModes no
"""
_SSH = """\
Host kerberized
  HostName localhost
  Port {port}
  User root
  UserKnownHostsFile {folder}/known_hosts
  IdentityFile none
  IdentityAgent none
  GSSAPIAuthentication yes
"""


def missing_kerberos() -> str:
    """What a realm here would need; empty where nothing is missing."""
    lacking = [name for name in PROGRAMS if shutil.which(name, path=PATH) is None]
    if lacking:
        return f"{', '.join(lacking)} not installed (krb5-kdc, krb5-admin-server, krb5-user)"
    if os.geteuid() != 0 or sshd_binary() is None:
        return "an sshd of one's own needs root and openssh-server"
    return "" if find_spec("gssapi") else "the Python package gssapi is not installed"


@dataclass(frozen=True, slots=True)
class Realm:
    """A realm that is up."""

    folder: Path
    env: dict[str, str]
    """Where its programs find it."""

    @property
    def ssh_config(self) -> Path:
        """Names the sshd ``kerberized``."""
        return self.folder / "ssh_config"

    def run(self, *words: str, text: str = "") -> None:
        """Run one of its programs."""
        subprocess.run(words, input=text, env=self.env, check=True, capture_output=True, text=True)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            assert time.monotonic() < deadline, f"nothing listens at port {port}"
            time.sleep(0.1)
        else:
            return


@contextmanager
def realm(folder: Path) -> Iterator[Realm]:
    """A realm whose user ``root`` has a ticket, and an sshd that lets nobody in without one."""
    kdc_port, ssh_port = _free_port(), _free_port()
    (folder / "krb5.conf").write_text(_CLIENT.format(realm=REALM, port=kdc_port))
    (folder / "kdc.conf").write_text(_KDC.format(realm=REALM, port=kdc_port, folder=folder))
    (folder / "sshd_config").write_text(_SSHD.format(port=ssh_port, folder=folder))
    (folder / "ssh_config").write_text(_SSH.format(port=ssh_port, folder=folder))
    env = {
        **os.environ, "PATH": PATH, "KRB5_CONFIG": f"{folder}/krb5.conf", "KRB5_KDC_PROFILE": f"{folder}/kdc.conf",
        "KRB5CCNAME": f"FILE:{folder}/tickets", "KRB5_KTNAME": f"FILE:{folder}/keytab",
    }  # fmt: skip
    made = Realm(folder, env)
    made.run("kdb5_util", "create", "-s", "-P", "master", "-r", REALM)
    for query in (
        "addprinc -pw sesame root", "addprinc -randkey host/localhost", f"ktadd -k {folder}/keytab host/localhost",
    ):  # fmt: skip
        made.run("kadmin.local", "-q", query)
    made.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{folder}/host_key")
    shown = " ".join((folder / "host_key.pub").read_text().split()[:2])
    (folder / "known_hosts").write_text(f"[localhost]:{ssh_port} {shown}\n")
    Path("/run/sshd").mkdir(exist_ok=True)
    sshd = [str(sshd_binary()), "-D", "-f", f"{folder}/sshd_config", "-E", f"{folder}/sshd.log"]
    started = [subprocess.Popen(words, env=env) for words in (["krb5kdc", "-n"], sshd)]
    try:
        _wait_for(kdc_port)
        _wait_for(ssh_port)
        made.run("kinit", "root", text="sesame\n")
        yield made
    finally:
        for one in started:
            one.terminate()
            one.wait()
