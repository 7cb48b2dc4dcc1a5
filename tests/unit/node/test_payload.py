"""Packing what runs on a node, and running it from memory."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

from collectors.fleet import payload
from collectors.node.resources import LOW
from collectors.node.sources import SOURCES


def run(packed: bytes, more: bytes = b"", cwd: Path | None = None) -> subprocess.CompletedProcess[bytes]:
    command = payload.command(sys.executable)
    return subprocess.run(command, input=packed + more, capture_output=True, timeout=20, cwd=cwd, check=False)


def probe(source: str, arguments: object = None) -> bytes:
    return payload.pack("probe", arguments, extra={"probe.py": source.encode(), "bin": b"\0\xff"})


def test_the_entry_gets_its_arguments_and_the_rest_of_the_input() -> None:
    source = (
        "import os\nfrom collectors.node.loader import blob\n"
        "def main(said):\n    print(said, os.read(0, 99), blob('bin'), globals().get('__file__', 'memory'))"
    )
    done = run(probe(source, arguments={"a": [1, None]}), b"control line")
    assert done.stdout.decode() == "{'a': [1, None]} b'control line' b'\\x00\\xff' memory\n"


def test_it_runs_isolated_at_a_low_priority_and_writes_nothing(tmp_path: Path) -> None:
    source = (
        "import os, sys\ndef main(_):\n"
        "    print(os.nice(0), sys.flags.isolated, sys.flags.no_site, sys.dont_write_bytecode)"
    )
    (tmp_path / "json.py").write_text("raise SystemExit('imported from the working folder')")
    assert run(probe(source), cwd=tmp_path).stdout == b"%d 1 1 True\n" % min(os.nice(0) + LOW, 19)
    assert [path.name for path in tmp_path.iterdir()] == ["json.py"]


def test_the_command_is_one_line_that_every_shell_can_quote() -> None:
    words = payload.command("python3.9")
    assert words[0] == "python3.9"
    assert not any("\n" in word or "!" in word for word in words)
    assert "-I" not in payload.command(site=True)
    assert payload.command(nice=False)[-1] == "0"


def shipped(entry: str, **more: Any) -> set[str]:
    packed = payload.pack(entry, None, **more)
    body = zlib.decompress(packed[16 : 16 + int(packed[:8], 16)]).partition(b"\0")[2]
    return {name for name, _, _ in json.loads(body.partition(b"\n")[0])[1]}


def test_what_an_entry_imports_travels_and_nothing_else() -> None:
    agent = shipped("collectors.node.agent")
    assert {place.partition(":")[0] for place in SOURCES.values()} < agent
    assert {"collectors", "collectors.node", "collectors.samples.stream", "collectors.node.ranks.job_process"} < agent
    assert "collectors.node.stacks.stackdump" not in agent
    assert "collectors.node.processes.process_state" not in agent, "memory of ranks is read when stacks are asked for"
    assert not any(name.startswith(("collectors.fleet", "collectors.probes")) for name in agent)


class _Undocumented(ast.NodeTransformer):
    """Takes out what :func:`payload.stripped` takes out."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr:
        text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return ast.Expr(ast.Constant("")) if text else node


def test_what_is_left_out_changes_nothing_but_docstrings_and_no_line_number() -> None:
    for name in shipped("collectors.node.agent"):
        source = payload._path(name).read_bytes()
        left = payload.stripped(source)
        assert ast.dump(ast.parse(left)) == ast.dump(_Undocumented().visit(ast.parse(source)))
        assert left.count(b"\n") == source.count(b"\n")


def test_the_agent_is_small() -> None:
    assert len(payload.pack("collectors.node.agent")) < 110_000
