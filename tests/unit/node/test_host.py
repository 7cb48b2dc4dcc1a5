"""Sources ``host``, ``disks`` and ``software``."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from collectors.node.blocking import BlockingGuard
from collectors.node.machine import disks
from collectors.node.machine.disks import DiskSource
from collectors.node.machine.host import HostSource
from collectors.node.machine.software import SoftwareSource, torch_versions
from collectors.node.processes.mounts import Mounts
from collectors.node.source import NotResponding, Shared
from collectors.samples.host import HostSample, Reading
from collectors.samples.ranks import RankProcess
from tests.support.looks import look, until
from tests.support.made import process


def write(root: Path, name: str, content: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


def rank(pid: int, cwd: str = "/home/x") -> RankProcess:
    return process(0, pid, cwd=cwd, uid=0)


def test_the_host_as_files_tell_it(tmp_path: Path) -> None:
    write(tmp_path, "meminfo", "MemTotal:  1000 kB\nMemFree:  10 kB\nMemAvailable:  400 kB\nHugePages_Total:  0\n")
    write(tmp_path, "loadavg", "3.50 2.00 1.00 7/512 4711\n")
    write(tmp_path, "pressure/io", "some avg10=12.50 avg60=0.00 avg300=0.00 total=1\nfull avg10=1.00\n")
    (sample,) = HostSource(Shared(), str(tmp_path), str(tmp_path)).read(0.0)
    assert isinstance(sample, HostSample)
    assert (sample.memory_total, sample.cpus, sample.versions) == (1024000, os.cpu_count(), {})
    assert (sample.load, sample.memory_available) == (3.5, 409600)
    assert sample.pressure_io == 12.5


MOUNTS = (
    "25 1 8:1 / / rw - ext4 /dev/vda rw\n40 25 0:44 / /data rw,relatime shared:20 - nfs4 srv:/export rw\n"
    "41 40 0:45 / /data/my\\040runs rw - zfs tank rw\n42 25 0:46 / /lxc rw - fuse.lxcfs lxcfs rw\n"
    "43 25 0:47 / /juice rw - fuse.juicefs juice:x rw\nbroken\n"
)


def test_mounts_and_what_lies_on_them(tmp_path: Path) -> None:
    write(tmp_path, "self/mountinfo", MOUNTS)
    own = Mounts(str(tmp_path))
    found = {path: own.of(path, 0.0) for path in ("/data/x", "/database", "/data/my runs/3", "/lxc/proc", "/juice")}
    assert {path: mount.kind for path, mount in found.items()} == {
        "/data/x": "nfs4", "/database": "ext4", "/data/my runs/3": "zfs", "/lxc/proc": "fuse.lxcfs",
        "/juice": "fuse.juicefs",
    }  # fmt: skip
    assert [path for path, mount in found.items() if mount.shared] == ["/data/x", "/juice"]


def test_a_file_system_that_hangs_is_named_and_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    original = os.statvfs

    def hang(path: str) -> os.statvfs_result:
        if path == "/data/run":
            release.wait(30)
        return original("/")

    monkeypatch.setattr(os, "statvfs", hang)
    monkeypatch.setattr(BlockingGuard.__init__, "__defaults__", (0.05,))
    monkeypatch.setattr(disks, "EVERY", 0.0)
    write(tmp_path, "self/mountinfo", MOUNTS)
    shared = Shared()
    shared.ranks = (rank(7, cwd="/data/run"), rank(8, cwd="/zz"))
    source = DiskSource(shared, str(tmp_path))
    _, error = look(source)
    assert isinstance(error, NotResponding)
    assert "/data/run (srv:/export)" in str(error)
    release.set()
    found = until(source, Reading, lambda reading: reading.of == "/data/run").values
    assert found["role"] == "cwd"
    assert 0 < int(found["free"]) <= int(found["total"])
    samples, _ = look(source)
    assert {reading.of for reading in samples if isinstance(reading, Reading)} >= {"/data/run", "/zz", "/tmp"}


MAPS = """\
7f00-7f01 r-xp 0 08:01 1 /opt/venv/bin/python3.11
7f02-7f03 r-xp 0 08:01 2 /opt/venv/lib/python3.11/site-packages/torch/lib/libtorch_cpu.so
7f04-7f05 r-xp 0 08:01 3 {nccl}
"""
SITE = "opt/venv/lib/python3.11/site-packages"
WHEEL = f"/{SITE}/nvidia/nccl/lib/libnccl.so.2"


@pytest.mark.parametrize(
    ("nccl", "versions"),
    [
        (WHEEL, {"torch": "2.13.0+cu128", "cuda": "12.8", "nccl": "2.27.3"}),
        ("/usr/lib/libnccl.so.2.21.5", {"torch": "2.13.0+cu128", "cuda": "12.8", "nccl": "2.21.5"}),
    ],
)
def test_versions_by_what_a_rank_has_loaded(tmp_path: Path, nccl: str, versions: dict[str, str]) -> None:
    write(
        tmp_path, f"{SITE}/torch/version.py", "__version__ = '2.13.0+cu128'\ncuda: Optional[str] = '12.8'\nhip = None\n"
    )
    write(tmp_path, f"{SITE}/nvidia_nccl_cu12-2.27.3.dist-info/METADATA", "")
    write(tmp_path, "proc/7/maps", MAPS.format(nccl=nccl))
    shared = Shared()
    shared.ranks = (rank(7),)
    source = SoftwareSource(shared, str(tmp_path / "proc"), str(tmp_path / "sys"), str(tmp_path))
    source.read(0.0)
    assert shared.versions == {7: versions}
    shared.ranks = ()
    source.read(0.0)
    assert shared.versions == {}


def test_root_reads_no_version_that_the_rank_s_user_may_not(tmp_path: Path) -> None:
    write(tmp_path, "torch/version.py", "__version__ = '2.13.0'\n")
    (tmp_path / "torch" / "version.py").chmod(0o600)
    assert torch_versions(str(tmp_path), "/torch", None, os.getuid() + 1) == {}
    assert torch_versions(str(tmp_path), "/torch", None, os.getuid()) == {"torch": "2.13.0"}
