"""torch's own debug server in a rank, reached where the rank is: on a port of another network, by a socket."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from collectors.fleet.local import Local
from collectors.formats import flight_recorder
from collectors.node.nccl import debug_server
from collectors.node.processes import netns
from collectors.probes.recorder.fetch import Dump, fetch
from collectors.probes.stacks.dump import DumpManner
from collectors.probes.stacks.dump import dump as dump_stacks

pytestmark = [pytest.mark.torch, pytest.mark.nodes]

RANK = """\
import os, sys, time
import torch, torch.distributed as dist
from torch._C._distributed_c10d import _WorkerServer
server = _WorkerServer(*eval(sys.argv[1]))
dist.init_process_group("gloo", init_method=f"file://{sys.argv[2]}/store", rank=0, world_size=1)
for step in range(3):
    dist.all_reduce(torch.ones(64))
print("ready", flush=True)
time.sleep(120)
"""


@contextmanager
def rank(tmp_path: Path, server: str, inside: list[str]) -> Iterator[int]:
    """Pid of a rank in the namespaces that the words ``inside`` make for it."""
    words = [*inside, sys.executable, "-c", RANK, server, str(tmp_path)]
    environment = {**os.environ, "TORCH_FR_BUFFER_SIZE": "100", "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=environment, text=True) as process:
        assert process.stdout is not None
        try:
            assert any(line == "ready\n" for line in process.stdout), "the rank did not come up"
            yield process.pid
        finally:
            process.kill()


def ask(pid: int) -> Dump:
    python, started = sys.executable, time.time() - 600
    (dump,) = asyncio.run(fetch(Local("node1"), python, [(0, pid, started)], fresh=True))
    return dump


@pytest.mark.parametrize(
    ("server", "inside"),
    [
        pytest.param('("0.0.0.0", 0)', [], marks=pytest.mark.slow),
        ('("0.0.0.0", 0)', ["unshare", "-n", "sh", "-c", 'ip link set lo up; exec "$@"', "sh"]),
        pytest.param('(os.path.join(sys.argv[2], "worker.sock"),)', [], marks=pytest.mark.slow),
        (
            '("/mnt/link/worker.sock",)',
            ["unshare", "-m", "-n", "sh", "-c",
             'mount -t tmpfs no /mnt; mkdir /mnt/real; ln -s /mnt/real /mnt/link; ip link set lo up; exec "$@"', "sh"],
        ),
    ],
    ids=["port", "port of a container", "socket", "socket of a container"],
)  # fmt: skip
def test_it_hands_over_the_recorder(tmp_path: Path, server: str, inside: list[str]) -> None:
    with rank(tmp_path, server, inside) as pid:
        assert netns.is_elsewhere(pid) is bool(inside)
        found = debug_server.find(pid)
        assert found is not None
        assert "fr_trace_json" in found.handlers
        with pytest.raises(OSError, match="404"):
            debug_server.ask(found, "nothing_of_the_kind", 5.0, 1000)
        dump = ask(pid)
        assert dump.why == ""
        read = flight_recorder.read(dump.data, dump.path, dump.rank)
        assert [(one.op, one.seq) for one in read.collectives] == [("all_reduce", number) for number in (1, 2, 3)]


def test_it_tells_stacks_where_py_spy_may_not_look(tmp_path: Path) -> None:
    refused = tmp_path / "py-spy"
    refused.write_text("#!/bin/sh\necho 'Permission Denied: Try running again with elevated permissions' >&2\nexit 1\n")
    refused.chmod(0o755)
    with rank(tmp_path, '("0.0.0.0", 0)', []) as pid:
        (told,) = asyncio.run(dump_stacks(Local("node1"), [pid], manner=DumpManner(py_spy=str(refused))))
        (read,) = asyncio.run(dump_stacks(Local("node1"), [pid], python=sys.executable))
    assert (told.method, told.error) == ("debug server", "")
    assert read.method == "nonblocking"
    by_id = {thread.os_thread_id: [(frame.name, frame.line) for frame in thread.frames] for thread in told.threads}
    assert by_id[pid] == [("<module>", 9)]
    assert [(frame.name, frame.line) for frame in read.threads[0].frames][-1] == ("<module>", 9)


def test_without_one_it_is_said(tmp_path: Path) -> None:
    assert debug_server.find(os.getpid()) is None
    assert ask(os.getpid()).why == "the job was started without TORCH_NCCL_DEBUG_INFO_PIPE_FILE"
