"""What every way into nodes must bring about a job that hangs: answers of the commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

HANGTOP = (sys.executable, "-c", "from hangtop.cli.main import main; main()")


@dataclass(frozen=True)
class Reached:
    """Nodes by one way."""

    words: Sequence[str]
    """Names of nodes, and the options that say how they are reached."""
    case: str
    """``HX_CASE`` of the job."""
    env: Mapping[str, str] = field(default_factory=dict)

    def ask(self, *command: str, timeout: float = 90.0) -> tuple[int, str, str]:
        """Exit status, standard output and standard error of a command of hangtop."""
        words = [*HANGTOP, *command, *self.words, "--batch", "--job", f"HX_CASE={self.case}"]
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=timeout, check=False, env={**os.environ, **self.env}
        )
        return done.returncode, done.stdout, done.stderr

    def triage(self) -> dict[str, Any]:
        """The answer of triage."""
        _, out, errors = self.ask("triage", "--json", timeout=120.0)
        assert out, errors
        return dict(json.loads(out))

    def stuck_rank_is_found(self, rank: int) -> None:
        """Triage, stacks and a probe of the path all answer, and the first names the rank that blocks in its reader."""
        answer = self.triage()
        named = [(finding["kind"], finding["ranks"]) for finding in answer["findings"]]
        assert answer["verdict"] == "hung", json.dumps(answer, indent=1)
        assert named[0] == ("rank_stuck_in_data", [rank])
        assert {node["state"] for node in answer["job"]["nodes"]} == {"live"}
        status, out, errors = self.ask("stacks")
        assert status == 0, errors
        assert "lm.py" in out
        status, out, errors = self.ask("probe", "path", "--seconds", "0.2", "--yes", "--json")
        assert out, errors
        assert json.loads(out)["verdict"] == "ok", out
