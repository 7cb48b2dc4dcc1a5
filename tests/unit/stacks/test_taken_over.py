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
from collectors.node.processes import inside
from collectors.probes.stacks import DumpManner, dump
from tests.support.fake_proc import FakeProc

as_root = pytest.mark.skipif(os.getuid() != 0, reason="containers are root's to make")

PTRACE, ADMIN, CHOWN = 1 << 19, 1 << 21, 1


def process(
    proc: Path, name: str, *, pids: str = "pid:[9]", users: str = "user:[1]", depth: int = 2, may: int = CHOWN
) -> None:
    """A process by what decides whether it may trace others."""
    FakeProc.link(proc / name / "ns" / "pid", pids)
    FakeProc.link(proc / name / "ns" / "user", users)
    numbers = "\t".join(["7"] * depth)
    (proc / name / "status").write_text(f"Name:\tx\nNSpid:\t{numbers}\nCapPrm:\t{0:016x}\nCapBnd:\t{may:016x}\n")


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """A rank in a container, 55, and a process of the node's that may do everything."""
    process(tmp_path, "self", pids="pid:[1]", depth=1, may=PTRACE | ADMIN)
    process(tmp_path, "1", pids="pid:[1]", depth=1, may=PTRACE)
    process(tmp_path, "55")
    return tmp_path


def test_a_container_in_which_nobody_may_trace_others(proc: Path) -> None:
    process(proc, "56")
    assert not inside.exposed(55, str(proc))


def test_one_in_which_somebody_may(proc: Path) -> None:
    process(proc, "56", may=PTRACE | CHOWN)
    assert inside.exposed(55, str(proc))


def test_one_of_a_container_within_it_counts_too(proc: Path) -> None:
    process(proc, "56", pids="pid:[10]", depth=3, may=PTRACE)
    assert inside.exposed(55, str(proc))


@pytest.mark.parametrize(
    "other",
    [
        {"pids": "pid:[10]", "may": PTRACE},  # another container
        {"users": "user:[9]", "may": PTRACE},  # its rights are in its own user namespace
        {"may": PTRACE | ADMIN},  # privileged: has the node already
    ],
)
def test_one_beside_whom_others_may_whom_it_does_not_concern(proc: Path, other: dict[str, object]) -> None:
    process(proc, "56", **other)  # type: ignore[arg-type]
    assert not inside.exposed(55, str(proc))


# --- real containers ----------------------------------------------------------------------------------------------

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
        (found,) = await dump(Local("here"), [made.rank], manner=DumpManner(native=True), python=sys.executable)
        assert (found.method, found.error, found.way_out) == ("nonblocking", "", inside.KEPT_OUT)
        assert made.seen() == []
