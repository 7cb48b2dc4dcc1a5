"""NCCL's own files: read as NCCL does, through the rank's root, once it has NCCL."""

from __future__ import annotations

from pathlib import Path

from collectors.node import redact
from collectors.node.nccl.nccl_conf import merged, settings
from collectors.node.shared import ConfLine
from tests.support.made import process


def container(root: Path, pid: int = 7) -> Path:
    """A rank with a root of its own, and root's home in it."""
    inside = root / f"proc/{pid}/root"
    for name, target in ((f"{pid}", "mnt:[9]"), ("self", "mnt:[1]")):
        ns = root / f"proc/{name}/ns"
        ns.mkdir(parents=True)
        (ns / "mnt").symlink_to(target)
    (inside / "etc").mkdir(parents=True)
    (inside / "home/ada").mkdir(parents=True)
    (inside / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\nada:x:1000:1000::/home/ada:/bin/sh\n")
    return inside


def test_the_users_file_comes_before_the_systems(tmp_path: Path) -> None:
    inside = container(tmp_path)
    (inside / "etc/nccl.conf").write_text(
        "# of this cluster\nNCCL_ALGO=Tree\nNCCL_IB_HCA=mlx5\nHOME=/x\nNCCL_TOKEN=t\n"
    )
    (inside / "home/ada/.nccl.conf").write_text(
        "NCCL_ALGO=Ring\nNCCL_ALGO=Tree\n#NCCL_PROTO=LL\nno line\n NCCL_PROTO=LL\n"
    )
    found = settings(process(0, 7, uid=1000), str(tmp_path / "proc"))
    assert found == {
        "NCCL_ALGO": ConfLine("Ring", "/home/ada/.nccl.conf"),
        "NCCL_IB_HCA": ConfLine("mlx5", "/etc/nccl.conf"),
        "NCCL_TOKEN": ConfLine(redact.REDACTED, "/etc/nccl.conf"),  # it sounds like a secret
    }


def test_a_file_that_the_environment_names_stands_for_the_users(tmp_path: Path) -> None:
    inside = container(tmp_path)
    (inside / "home/ada/.nccl.conf").write_text("NCCL_ALGO=Ring\n")
    (inside / "job.conf").write_text("NCCL_PROTO=LL\n")
    rank = process(0, 7, uid=1000, env={"NCCL_CONF_FILE": "/job.conf"})
    assert settings(rank, str(tmp_path / "proc")) == {"NCCL_PROTO": ConfLine("LL", "/job.conf")}


def test_a_rank_takes_what_its_environment_has_not() -> None:
    rank = process(0, env={"NCCL_ALGO": "Ring"})
    conf = {"NCCL_ALGO": ConfLine("Tree", "/etc/nccl.conf"), "NCCL_DEBUG": ConfLine("WARN", "/etc/nccl.conf")}
    found = merged(rank, conf)
    assert (found.env, found.conf) == ({"NCCL_ALGO": "Ring", "NCCL_DEBUG": "WARN"}, {"NCCL_DEBUG": "/etc/nccl.conf"})
    assert merged(found, conf) is found
    assert merged(rank, {}) is rank
