"""A real KDC and OpenSSH's own sshd: hangtop's SSH gets in by a ticket, and says what is missing without one."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectors.fleet.ssh.asking import Questions
from collectors.fleet.ssh.config import SshConfig
from collectors.fleet.ssh.connector import Connector
from collectors.fleet.ssh.node import Ssh
from collectors.fleet.transport import Refused
from tests.support.kerberos import missing_kerberos, realm
from tests.support.ssh_server import Person

pytestmark = [
    pytest.mark.nodes,
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing_kerberos()), reason=missing_kerberos() or "everything is there"),
]


async def test_a_ticket_opens_the_door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with realm(tmp_path) as made:
        for name in ("KRB5_CONFIG", "KRB5CCNAME"):
            monkeypatch.setenv(name, made.env[name])
        connector = Connector(SshConfig.load(made.ssh_config), Questions(Person()))
        node = Ssh("kerberized", connector.settings("kerberized", None, None), connector)
        try:
            await node.connect()
            told = await node.run(["sh", "-c", "id -un; echo ${KRB5CCNAME-no ticket there}"])
            assert told.stdout == b"root\nno ticket there\n"
            await node.close()
            assert "Accepted gssapi-with-mic for root" in (tmp_path / "sshd.log").read_text()
            made.run("kdestroy")
            with pytest.raises(Refused, match=r"nothing: no key, no agent; not Kerberos: no ticket \(kinit gets one\)"):
                await node.connect()
        finally:
            await connector.close()
