"""Paths as a process in another mount namespace has them, opened from here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.node.processes.namespaces import LINKS, resolved
from tests.unit.recorder.test_places import run

INSIDE = """
mount -t tmpfs none /mnt && mkdir -p /mnt/real && ln -s /mnt/real /mnt/link && exec "$0" -c '
import os, sys, time
os.chdir("/mnt")
open("/mnt/real/fr_0", "w").write("inside")
os.mkfifo("/mnt/real/pipe_0.pipe")
print("ready", flush=True)
os.read(os.open("/mnt/real/pipe_0.pipe", os.O_RDONLY), 1)
open("/mnt/real/fr_0", "w").write("fresh")
time.sleep(60)
'
"""


MAY_UNSHARE = subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode == 0


def test_links_are_followed_below_the_root(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "file").write_text("x")
    (tmp_path / "absolute").symlink_to("/real")
    (tmp_path / "relative").symlink_to("absolute/../real")
    (tmp_path / "out").symlink_to("../../../../etc")
    (tmp_path / "round").symlink_to("round")
    root = str(tmp_path)
    assert resolved(root, "/absolute/file") == "/real/file"
    assert resolved(root, "/relative/file") == "/real/file"
    assert resolved(root, "/relative//./nothing/../file") == "/real/file"
    assert resolved(root, "/out/passwd") == "/etc/passwd", "below the root, however many dots"
    assert resolved(root, "/..") == "/"
    assert resolved(root, "/round/x") == "/round/x"
    assert LINKS >= 40


@given(st.lists(st.sampled_from(["..", ".", "", "real", "absolute", "out", "none"]), max_size=12))
def test_nothing_leads_out_of_the_root(tmp_path_factory: pytest.TempPathFactory, parts: list[str]) -> None:
    root = tmp_path_factory.mktemp("root")
    (root / "real").mkdir()
    (root / "absolute").symlink_to("/real/..")
    (root / "out").symlink_to("../../..")
    found = resolved(str(root), "/" + "/".join(parts))
    assert found.startswith("/")
    assert ".." not in found.split("/")


@pytest.mark.skipif(not MAY_UNSHARE, reason="another mount namespace needs root, and the right to make one")
@pytest.mark.parametrize("stem", ["/mnt/link/fr_", "real/fr_"])
def test_a_recorder_in_a_container_is_found_and_asked(stem: str) -> None:
    environment = {
        **os.environ, "TORCH_FR_DUMP_TEMP_FILE": stem, "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": "/mnt/link/pipe_",
    }  # fmt: skip
    words = ["unshare", "-m", "sh", "-c", INSIDE, sys.executable]
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE) as rank:
        assert rank.stdout is not None
        assert rank.stdout.readline() == b"ready\n"
        try:
            (lying,) = run([[0, rank.pid, 0.0]], fresh=False)
            (asked,) = run([[0, rank.pid, 0.0]], fresh=True)
        finally:
            rank.kill()
    assert (lying.data, lying.why) == ("aW5zaWRl", "")
    assert lying.path == f"/proc/{rank.pid}/root/mnt/real/fr_0"
    assert (asked.data, asked.why) == ("ZnJlc2g=", "")
