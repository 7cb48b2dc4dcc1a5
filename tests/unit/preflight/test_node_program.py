"""The node's half of preflight, run as it runs on a node: from its payload, by a bare interpreter."""

from __future__ import annotations

import json
import socket
import subprocess
from pathlib import Path

from collectors.fleet import payload
from collectors.samples.asked import Observation


def ask(arguments: dict[str, object], home: Path) -> list[Observation]:
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(home)}
    process = subprocess.Popen(
        payload.command("python3"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(payload.pack("collectors.node.machine.preflight", arguments))
    process.stdin.flush()
    found: list[Observation] = []
    for line in process.stdout:
        kind, fields = json.loads(line)
        assert kind == "Observation"
        found.append(Observation(*fields))
        if found[-1].name == "done":
            break
    process.stdin.close()
    assert process.wait(10) == 0, "it must end when its input ends"
    return found


def test_a_node_answers_every_check(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as open_port:
        port = open_port.getsockname()[1]
        arguments: dict[str, object] = {
            "listen": [0, port],
            "connect": [["127.0.0.1", port], ["no-such-host.invalid", 1]],
            "paths": ["/tmp", str(tmp_path / "missing")],
            "master": "localhost",
            "seconds": 20,
        }
        found = {(answer.name, answer.subject): answer for answer in ask(arguments, tmp_path)}
    assert found["loopback", ""].error == ""
    assert isinstance(found["connect", f"127.0.0.1:{port}"].value, float)
    assert found["connect", "no-such-host.invalid:1"].error
    assert isinstance(found["listen", "0"].value, int)
    assert "EADDRINUSE" in found["listen", str(port)].error
    assert found["disk", str(tmp_path / "missing")].error
    assert isinstance(found["disk", "/tmp"].value, list)
    assert {"nofile", "memlock", "stack", "nproc"} <= {subject for name, subject in found if name == "limit"}
    assert found["resolve", "localhost"].value
