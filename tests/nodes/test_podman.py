"""Ranks in a container of a real podman: seen from its host, and by ``podman exec``."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hangtop.session.live import live_session
from hangtop.session.options import SessionOptions
from tests.support.podman import container, root_folder, usable_runtime, wait_for_output
from tests.support.reached import HANGTOP

pytestmark = [pytest.mark.nodes, pytest.mark.slow]

JOB = Path(__file__).parents[1] / "support" / "plain_jobs"
START = """\
export WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=%d
for rank in 0 1; do RANK=$rank %s /job/train.py & done
wait
"""


@dataclass(frozen=True, slots=True)
class Contained:
    """A job in a container, one rank of which is stuck."""

    name: str
    port: int

    def ask(self, *words: str) -> dict[str, Any]:
        """What ``triage`` says."""
        done = subprocess.run(
            [*HANGTOP, "triage", "--json", "--job", f"MASTER_PORT={self.port}", *words],
            capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        assert done.stdout, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Contained]:
    """Its program lies in the container alone."""
    root = root_folder(tmp_path_factory.mktemp("podman"))
    runtime, why = usable_runtime(root)
    if why:
        pytest.skip(why)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    package = root / "job" / "torch" / "distributed"
    package.mkdir(parents=True)
    (package / "distributed_c10d.py").write_text((JOB / "distributed_c10d.py").read_text())
    (root / "job" / "train.py").write_text((JOB / "train.py").read_text())
    (root / "job" / "start.sh").write_text(START % (port, Path(sys.executable).resolve()))
    with container(runtime, root, ["sh", "/job/start.sh"]) as name:
        wait_for_output(runtime, name, "struck")
        yield Contained(name, port)


def test_who_hangs_is_named_from_the_host_and_from_inside(job: Contained) -> None:
    for words in ([], ["--via", "podman exec -i %h sh", job.name]):
        answer = job.ask(*words)
        first = answer["findings"][0]
        assert (answer["verdict"], first["kind"], first["ranks"]) == ("hung", "rank_stuck_in_data", [1])
        assert "fetch_shard (train.py:" in first["summary"]
        assert answer["job"]["ranks_seen"] == 2, "hangtop's own node side is no rank"


async def _log_paths(port: int) -> list[str]:
    """Logs of the job's ranks, as soon as the node side has found one; none when it does not in a minute."""
    session = live_session(SessionOptions(targets=(), job=("MASTER_PORT", str(port)), batch=True))
    try:
        await session.start()
        for _ in range(600):
            found = [path for node in session.state.nodes.values() for path in node.log_files]
            if found:
                return found
            await asyncio.sleep(0.1)
        return []
    finally:
        await session.close()


def test_what_it_prints_is_read_where_conmon_writes_it(job: Contained) -> None:
    (path,) = asyncio.run(_log_paths(job.port))
    assert path.endswith("/ctr.log")
    assert "step 10" in Path(path).read_text()
