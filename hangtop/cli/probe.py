"""``hangtop probe …``: the probes by name; without a name, collectives are measured."""

from __future__ import annotations

from hangtop.cli.default_group import DefaultGroup
from hangtop.cli.probe_capture import command as capture
from hangtop.cli.probe_collectives import command as collectives
from hangtop.cli.probe_infiniband import command as infiniband
from hangtop.cli.probe_path import command as path
from hangtop.cli.probe_trace import command as trace

command = DefaultGroup(
    "probe",
    default="collectives",
    commands={
        "collectives": collectives, "path": path, "infiniband": infiniband, "trace": trace, "capture": capture,
    },
    help="Measure between nodes: collectives (the default), the path under them, the fabric, traces, packets.",
)  # fmt: skip
