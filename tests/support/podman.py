"""Ranks in a container of a real podman, rootless where the tests are not run by root."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_LINKS = ("bin", "sbin", "lib", "lib64")
_FOLDERS = ("usr", "etc", "proc", "sys", "dev", "tmp", "run", "var", "job")
_LIMITS = ("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024")
"""Else podman would raise them, which not every root may."""


def _podman(runtime: str, *words: str) -> list[str]:
    return ["podman", *(["--runtime", runtime] if runtime else []), *words]


def _run(runtime: str, root: Path, *options: str) -> list[str]:
    python = Path(sys.base_prefix)
    mounts = ["-v", "/usr:/usr:ro", *([] if python.is_relative_to("/usr") else ["-v", f"{python}:{python}:ro"])]
    return _podman(runtime, "run", "--network=host", "--log-driver=k8s-file", *_LIMITS, *mounts, *options,
                   "--rootfs", str(root))  # fmt: skip


def root_folder(folder: Path) -> Path:
    """A file system whose programs are this machine's, and nothing else of it."""
    root = folder / "root"
    for name in _FOLDERS:
        (root / name).mkdir(parents=True)
    for name in _LINKS:
        (root / name).symlink_to(f"usr/{name}")
    return root


def usable_runtime(root: Path) -> tuple[str, str]:
    """The runtime that starts containers here, empty for podman's own choice; and why none does, where none does."""
    if shutil.which("podman") is None:
        return "", "podman is not installed"
    why = ""
    for runtime in ("", *(name for name in ("crun", "runc") if shutil.which(name))):
        done = subprocess.run(
            [*_run(runtime, root, "--rm"), "true"], capture_output=True, text=True, check=False, timeout=120
        )
        if done.returncode == 0:
            return runtime, ""
        why = why or done.stderr.strip()
    return "", f"podman starts no container here: {why}"


@contextmanager
def container(runtime: str, root: Path, command: Sequence[str]) -> Iterator[str]:
    """A container that runs a command; gives its name."""
    name = f"hangtop-{uuid.uuid4().hex[:12]}"
    subprocess.run([*_run(runtime, root, "-d", "--name", name), *command], check=True, capture_output=True)
    try:
        yield name
    finally:
        subprocess.run(_podman(runtime, "rm", "-f", "-t", "0", name), check=True, capture_output=True)


def wait_for_output(runtime: str, name: str, text: str, timeout: float = 150.0) -> None:
    """Wait until the container has printed something."""
    deadline = time.monotonic() + timeout
    while True:
        said = subprocess.run(_podman(runtime, "logs", name), capture_output=True, text=True, check=True).stdout
        if text in said:
            return
        assert time.monotonic() < deadline, said
        time.sleep(0.2)
