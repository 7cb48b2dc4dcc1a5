"""``hangtop probe …``: measurements between nodes, by name; without a name, collectives are measured.

To add a probe, write a function ``async def probe_x(run, …) -> Reply`` with :func:`probe`, and import its module here.
"""

from __future__ import annotations

from hangtop.cli.groups import DefaultGroup
from hangtop.cli.probes_network import capture, infiniband, path
from hangtop.cli.probes_ranks import collectives, trace

command = DefaultGroup(
    "probe",
    default="collectives",
    commands={one.name or "": one for one in (collectives, path, infiniband, trace, capture)},
    help="Measure between nodes: collectives (the default), the path under them, the fabric, traces, packets.",
)
