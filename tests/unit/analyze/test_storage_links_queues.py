"""Lustre's clients, links of adapters and switches, jobs in a queue, launchers in their rendezvous: text to verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.saved import verdict

LUSTRE = "May  2 03:04:05 n14 kernel: Lustre: 91:0:(client.c:2100:ptlrpc_expire_one_request()) @@@ Request sent has "
SENT = ": [sent 17/real 17]  req@ffff x1/t0(0) o400->fast-OST0003-osc-ffff9@10.9.8.7@tcp:28/4 lens 224/224 e 0 to 1"
RENDEZVOUS = """Traceback (most recent call last):
  File "/v/torch/distributed/elastic/rendezvous/c10d_rendezvous_backend.py", line 155, in _create_tcp_store
    store = TCPStore(
RuntimeError: the peer has gone

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/v/site-packages/torch/distributed/run.py", line 719, in main
    run(args)
  File "/v/site-packages/torch/distributed/launcher/api.py", line 131, in __call__
    return launch_agent(self._config, self._entr"""
FAULTS = [
    (LUSTRE + "failed due to network error" + SENT, "storage_stalled", "fast-OST0003"),
    (LUSTRE + "timed out for slow reply" + SENT, "storage_stalled", "n14"),
    (
        "2026-05-02T03:04:05.1+00:00 oss2 kernel: LustreError: 7:0:(osd.c:18:osd_stop()) ASSERTION( c == 0 ) failed:",
        "kernel_trouble",
        "oss2",
    ),
    ("May  2 03:04:05 n3 WARNING kernel: [  620.100001] mlx5_core 0000:3b:00.0 ib0: Link down", "ib_port_down", "n3"),
    (
        "May  2 03:04:05 leaf3 NOTICE swss#orchagent: :- update: Port Ethernet48 oper state set from up to down",
        "ib_port_down",
        "Ethernet48",
    ),
    ("Name:         w-0\nNode:         <none>\nStatus:       Pending\nIP:", "waiting", "the pod is pending"),
    ("NAME    READY   STATUS    RESTARTS   AGE\nw-1     0/1     Pending   0          5m", "waiting", "pod w-1"),
    ("  812  gpu  big  ann PD  0:00  16 (Resources)", "waiting", "job 812 is pending (Resources)"),
    ("JobId=812 JobName=big\n   JobState=PENDING Reason=ReqNodeNotAvail Dependency=(null)", "waiting", "NotAvail"),
    (RENDEZVOUS, "store_timeout", "rendezvous"),
]
NONE = [
    LUSTRE + "timed out for slow reply" + SENT + "\nMay  2 03:05:05 n14 kernel: Lustre: fast-OST0003-osc-ffff9: "
    "Connection restored to fast-OST0003 (at 10.9.8.7@tcp)",
    "May  2 03:04:05 n3 kernel: Lustre: Lustre: Build Version: 2.15.1",
    "May  2 03:04:05 n3 WARNING kernel: [    4.100001] mlx5_core 0000:3b:00.0 ib0: Link down",
    "May  2 03:04:05 leaf3 NOTICE swss#orchagent: :- update: Port Ethernet48 oper state set from down to up",
    "Name:         w-0\nStatus:       Running\nIP:           10.1.1.1",
    "  812  gpu  big  ann PD  0:00  16 (Dependency)\n  813  gpu  big  ann  R  1:00  16 n[1-16]",
    "JobId=812 JobName=big\n   JobState=RUNNING Reason=None Dependency=(null)",
]


@pytest.mark.parametrize(("text", "kind", "named"), FAULTS)
def test_a_fault(tmp_path: Path, text: str, kind: str, named: str) -> None:
    found = verdict(tmp_path, text).findings[0]
    assert found.kind == kind
    assert named in found.summary


@pytest.mark.parametrize("text", NONE)
def test_none(tmp_path: Path, text: str) -> None:
    assert verdict(tmp_path, text).findings == ()
