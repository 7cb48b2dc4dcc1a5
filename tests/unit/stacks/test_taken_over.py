"""What root runs in a container gives nothing to those who may trace others there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from collectors.fleet.local import Local
from collectors.node.stacks.look import NO_NATIVE
from collectors.probes.stacks import DumpRequest, dump

as_root = pytest.mark.skipif(os.getuid() != 0, reason="containers are root's to make")

RANK = """
import os, sys, time
os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
print("ready", flush=True)
time.sleep(600)
"""
ATTACKER = """
import os, select, sys
secret, seen = sys.argv[1], set()
mine = set(os.listdir("/proc"))
print("ready", flush=True)
while not select.select([0], [], [], 0)[0]:
    for name in set(os.listdir("/proc")) - mine:
        try:
            open("/proc/" + name + "/root" + secret).close()
        except OSError:
            continue
        seen.add(open("/proc/" + name + "/cmdline").read().replace(chr(0), " ")[:60])
print(sorted(seen), flush=True)
"""
DOCKER = "-all,+chown,+dac_override,+fowner,+fsetid,+kill,+setgid,+setuid,+net_raw,+sys_chroot,+mknod,+sys_ptrace"


@dataclass
class Container:
    """A container with a rank and somebody who may trace it, which looks for a file of the node's."""

    rank: int
    attacker: subprocess.Popen[str]

    def seen(self) -> list[str]:
        """Which processes led to the node's file."""
        out, _ = self.attacker.communicate("\n", timeout=30)
        found = json.loads(out.strip().splitlines()[-1].replace("'", '"'))
        assert isinstance(found, list)
        return found


@contextmanager
def container(folder: Path) -> Iterator[Container]:
    """``folder`` is empty in it, and holds the file outside."""
    (folder / "secret").write_text("the node's")
    bounded = f"setpriv --bounding-set={DOCKER} --inh-caps=-all {sys.executable}"
    script = (
        f'mount -t tmpfs none {folder} && {{ {bounded} -c "$0" & read -r _; }} && '
        f'exec {bounded} -c "$1" {folder}/secret'
    )
    words = ["unshare", "-m", "-p", "-u", "-i", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script]
    with subprocess.Popen([*words, RANK, ATTACKER], stdin=-1, stdout=-1, text=True, bufsize=1) as made:
        assert made.stdin is not None
        assert made.stdout is not None
        assert made.stdout.readline() == "ready\n"
        made.stdin.write("\n")
        assert made.stdout.readline() == "ready\n"
        found = [pid for pid in below(made.pid) if RANK in Path(f"/proc/{pid}/cmdline").read_text()]
        try:
            yield Container(found[-1], made)
        finally:
            made.kill()


def below(pid: int) -> list[int]:
    """Processes that this one has started, and theirs."""
    with suppress(OSError):
        mine = [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        return [*mine, *(inner for one in mine for inner in below(one))]
    return []


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that everybody may see."""
    made = Path(tempfile.mkdtemp(prefix="hangtop-taken-over-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@as_root
async def test_py_spy_stays_out_where_it_could_be_taken_over(folder: Path) -> None:
    with container(folder) as made:
        (found,) = await dump(Local("here"), [made.rank], DumpRequest(native=True), python=sys.executable)
        assert (found.method, found.error, found.way_out) == ("nonblocking", "", NO_NATIVE)
        assert made.seen() == []
