"""What the probe's own NCCL log says of its way: lines as NCCL 2.14 to 2.30 print them."""

from __future__ import annotations

import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from collectors.probes.allreduce.nccl_log import network_of

INFINIBAND = b"""\
node1:4711:4711 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth0
node1:4711:4711 [0] NCCL INFO Bootstrap: Using eth0:10.0.0.1<0>
node1:4711:4711 [0] NCCL INFO NCCL version 2.27.5+cuda12.9
node1:4711:4760 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>
node1:4711:4760 [0] NCCL INFO Using network IB
node1:4711:4760 [0] NCCL INFO ncclCommInitRank comm 0x55 rank 0 nranks 16 cudaDev 0 nvmlDev 0 busId 1000 - Init START
node1:4711:4760 [0] NCCL INFO Channel 00/16 : 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15
node1:4711:4760 [0] NCCL INFO 16 coll channels, 16 collnet channels, 0 nvls channels, 16 p2p channels
node1:4711:4760 [0] NCCL INFO ncclCommInitRank comm 0x55 rank 0 nranks 16 cudaDev 0 nvmlDev 0 busId 1000 - Init COMPLETE
node1:4711:4790 [0] NCCL INFO Channel 00/0 : 15[7] -> 0[0] [receive] via NET/IB/0/GDRDMA
node1:4711:4790 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM
node1:4711:4790 [0] NCCL INFO Channel 01/0 : 0[0] -> 8[0] [send] via NET/IB/1/GDRDMA
node1:4711:4790 [0] NCCL INFO Connected all rings
"""
SOCKET = b"""\
NCCL version 2.14.3+cuda11.7
node2:81:90 [0] NCCL INFO NET/IB : No device found.
node2:81:90 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.2<0>
node2:81:90 [0] NCCL INFO Using network Socket
node2:81:95 [0] NCCL INFO Channel 00/0 : 1[1b000] -> 0[1b000] [receive] via NET/Socket/0
node2:81:95 [0] NCCL INFO Channel 01/0 : 1[1b000] -> 0[1b000] [receive] via NET/Socket/0
"""


def test_infiniband_with_gpu_direct() -> None:
    assert network_of(INFINIBAND) == {
        "version": "2.27.5", "network": "IB", "devices": "mlx5_0:1/IB mlx5_1:1/IB", "gdr": "on", "channels": "16",
    }  # fmt: skip


def test_sockets() -> None:
    assert network_of(SOCKET) == {"version": "2.14.3", "network": "Socket", "devices": "eth0:10.0.0.2<0>", "gdr": "off"}


def test_a_log_that_says_nothing() -> None:
    assert network_of(b"warning: nothing to see\n") == {}


@given(st.binary(max_size=300), st.integers(0, len(INFINIBAND)))
def test_any_bytes_are_read_and_come_out_harmless(noise: bytes, at: int) -> None:
    for value in network_of(INFINIBAND[:at] + noise + INFINIBAND[at:]).values():
        assert "\x1b" not in value
        assert "\x00" not in value


def test_nccls_lines_leave_the_worker_whole_and_at_once() -> None:
    program = (
        "import ctypes, os\n"
        "from collectors.probes.allreduce.remote.worker import write_whole_lines\n"
        "write_whole_lines()\n"
        "ctypes.CDLL(None).printf(b'node1:1:1 [0] NCCL INFO Using network IB\\n')\n"
        "os._exit(0)\n"  # as the worker ends: what C had kept back would be lost
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert network_of(done.stdout) == {"network": "IB"}
