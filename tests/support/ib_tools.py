"""Simulated InfiniBand tools: small programs that print what the real ones print, by their sources.

rdma-core's libibverbs/examples/devinfo.c, infiniband-diags/ibping.c and ibtracert.c; perftest's perftest_parameters.h.
"""

from __future__ import annotations

import sys
from pathlib import Path


def _port(state: str, number: int, mtu: int, sm: int, lid: int, layer: str) -> str:
    code = {256: 1, 512: 2, 1024: 3, 2048: 4, 4096: 5}[mtu]
    return (
        f"\t\tport:\t1\n\t\t\tstate:\t\t\t{state} ({number})\n\t\t\tmax_mtu:\t\t4096 (5)\n"
        f"\t\t\tactive_mtu:\t\t{mtu} ({code})\n\t\t\tsm_lid:\t\t\t{sm}\n\t\t\tport_lid:\t\t{lid}\n"
        f"\t\t\tport_lmc:\t\t0x00\n\t\t\tlink_layer:\t\t{layer}\n\n"
    )


def _adapter(name: str, port: str) -> str:
    return (
        f"hca_id:\t{name}\n\ttransport:\t\t\tInfiniBand (0)\n\tfw_ver:\t\t\t\t28.39.1002\n"
        "\tnode_guid:\t\t\t506b:4b03:00bb:0001\n\tvendor_id:\t\t\t0x02c9\n\tvendor_part_id:\t\t\t4129\n"
        f"\thw_ver:\t\t\t\t0x0\n\tboard_id:\t\t\tMT_0000000838\n\tphys_port_cnt:\t\t\t1\n{port}"
    )


DEVINFO = (
    _adapter("mlx5_0", _port("PORT_ACTIVE", 4, 4096, 1, 17, "InfiniBand"))
    + _adapter("mlx5_1", _port("PORT_DOWN", 1, 1024, 0, 65535, "InfiniBand"))
    + _adapter("mlx5_bond_0", _port("PORT_ACTIVE", 4, 1024, 0, 0, "Ethernet"))
)
_LINE = "-" * 87
BANDWIDTH = f"""\
{_LINE}
                    RDMA_Write BW Test
 Dual-port       : OFF\t\tDevice         : mlx5_0
 Mtu             : 4096[B]
 local address: LID 0x11 QPN 0x0127 PSN 0x5be0f1 RKey 0x1fffbe VAddr 0x007f2a4c5f9000
 remote address: LID 0x12 QPN 0x0127 PSN 0x3de2b1 RKey 0x1fffbe VAddr 0x007f1e3ad22000
{_LINE}
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      1500000          0.00               392.01\t\t     0.747700
{_LINE}
"""
PING = """\

--- node2 (Lid 18) ibping statistics ---
10 packets transmitted, 9 received, 10% packet loss, time 12 ms
rtt min/avg/max = 0.020/0.024/0.031 ms
"""
ROUTE = """\
From ca {0x506b4b0300bb0001} portnum 1 lid 17-17 "node1 mlx5_0"
[1] -> switch port {0x506b4b0300aa0001}[12] lid 3-3 "leaf1"
[20] -> switch port {0x506b4b0300aa0002}[4] lid 5-5 "spine 2"
[7] -> ca port {0x506b4b0300bb0002}[1] lid 18-18 "node2 mlx5_0"
To ca {0x506b4b0300bb0002} portnum 1 lid 18-18 "node2 mlx5_0"
"""

_PERFTEST = """\
import socket, sys
words = sys.argv[1:]
port = int(words[words.index("-p") + 1])
if len(words) == 11:
    with socket.create_connection((words[-1], port)) as other:
        other.sendall(b"x")
    print({text!r})
else:
    with socket.create_server(("", port)) as server:
        server.accept()[0].recv(1)
"""
_IBPING = """\
import sys, time
if "-S" in sys.argv:
    time.sleep(30)
print({text!r})
"""


def install(folder: Path) -> None:
    """Put the tools into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    sources = {
        "ibv_devinfo": f"print({DEVINFO!r})",
        "ib_write_bw": _PERFTEST.format(text=BANDWIDTH),
        "ibping": _IBPING.format(text=PING),
        "ibtracert": f"print({ROUTE!r})",
    }
    for name, source in sources.items():
        tool = folder / name
        tool.write_text(f"#!{sys.executable} -S\n{source}\n")
        tool.chmod(0o755)
