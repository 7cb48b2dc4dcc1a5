"""Profiler traces that lie on nodes: reduced there over real SSH, together named the late rank, nothing left behind."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.faulty import Nurseries

pytestmark = pytest.mark.nodes

TRACES = Path(__file__).parent.parent / "fixtures" / "traces"
HANGTOP = (sys.executable, "-c", "from hangtop.cli.main import main; main()")


# A rank with what hangtop takes for torch's debug server: it is asked for a trace, and never has one.
ASKED_IN_VAIN = """
import ctypes, http.server, threading, time

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'["torch_profile"]')

    def do_POST(self):
        print("asked", flush=True)
        time.sleep(600)

def serve():
    ctypes.CDLL(None).prctl(15, b"pt_workerserver", 0, 0, 0)
    http.server.ThreadingHTTPServer(("", 0), Handler).serve_forever()

threading.Thread(target=serve).start()
"""
OURS = "-B -u -c"
"""Words that every program of ours is started with."""


@pytest.mark.slow
def test_a_link_that_is_cut_while_a_rank_is_traced_is_told_and_leaves_nothing_behind_it(nursery: Nurseries) -> None:
    *_, lost = nursery.cluster.nodes
    ranks = nursery.cluster.launch(ASKED_IN_VAIN)
    words = [*HANGTOP, "probe", "trace", lost.name, "--live", "--yes", "-F", str(nursery.cluster.ssh_config)]
    process = subprocess.Popen(
        [*words, "--batch", "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        ranks.wait_for("asked", ranks=[1], timeout=20)
        assert lost.matching(OURS)
        lost.cut()
        said, _ = process.communicate(timeout=20)
        deadline = time.monotonic() + 12
        while left := lost.matching(OURS):  # by its alarm: nobody could tell it
            assert time.monotonic() < deadline, left
            time.sleep(0.1)
    finally:
        lost.restore()
        process.kill()
        ranks.kill()
    answer = json.loads(said)
    assert (process.returncode, answer["verdict"]) == (1, "failed")
    assert "node2: the connection was lost before it had answered" in said


def test_traces_on_two_nodes_name_the_late_rank(nursery: Nurseries) -> None:
    cluster = nursery.cluster
    for rank, node in enumerate(cluster.nodes):
        folder = node.tmp / "traces"
        folder.mkdir(exist_ok=True)
        (folder / f"{rank}.json.gz").write_bytes((TRACES / f"straggler_rank{rank}.json.gz").read_bytes())
    words = [*HANGTOP, "probe", "trace", *cluster.names, "--on-nodes", "/tmp/traces/*"]
    done = subprocess.run(
        [*words, "-F", str(cluster.ssh_config), "--batch", "--json"],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.stdout, done.stderr
    answer = json.loads(done.stdout)
    assert done.returncode == 1
    assert [(rank["rank"], rank["node"]) for rank in answer["ranks"]] == list(enumerate(cluster.names))
    assert answer["findings"][0]["kind"] == "straggler_rank"
    assert answer["findings"][0]["ranks"] == [1]
