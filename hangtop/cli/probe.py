"""``hangtop probe …``: the probes by name; without a name, collectives are measured."""

from __future__ import annotations

from hangtop.cli.default_group import DefaultGroup
from hangtop.cli.probe_collectives import command as collectives
from hangtop.cli.probe_path import command as path

command = DefaultGroup(
    "probe",
    default="collectives",
    commands={"collectives": collectives, "path": path},
    help="Measure between nodes: collectives (the default) or the path under them.",
)
