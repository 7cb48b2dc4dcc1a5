"""Start a demo, wait for it, and end it with everything that belongs to it."""

from __future__ import annotations

import importlib.util
import json
import select
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from types import TracebackType

from hangtop.demo.options import DemoOptions

LABEL = "DEMO · simulated devices"
"""Label on the screen."""
START = 30.0
"""Most seconds until its servers listen."""
END = 5.0
"""Most seconds until it ends by itself."""


class DemoError(Exception):
    """The demo cannot run; the text says what to do."""


class Demo:
    """``with Demo(options) as demo``: two nodes with a job, reachable over SSH until the block ends.

    Entering returns at once; :meth:`ready` waits until the servers listen. The ranks take some seconds more to start.
    """

    def __init__(self, options: DemoOptions | None = None) -> None:
        """Raises :class:`DemoError` if torch is missing."""
        if importlib.util.find_spec("torch") is None:
            raise DemoError("hangtop demo needs torch: pip install 'hangtop[demo]'")
        self.options = options or DemoOptions()
        self._host: subprocess.Popen[bytes] | None = None
        self._paths: tuple[Path, Path] | None = None

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of the nodes, as in ``ssh_config``."""
        return self.options.node_names

    @property
    def folder(self) -> Path:
        """Folder of logs (``logs/rankN.out``), keys and simulated devices; removed at the end of the demo."""
        return self.ready()[0]

    @property
    def ssh_config(self) -> Path:
        """Path of the ssh_config with the nodes' ports, the identity and the known hosts."""
        return self.ready()[1]

    def __enter__(self) -> Demo:
        self._host = subprocess.Popen(
            [sys.executable, "-m", "hangtop.demo.host", json.dumps(asdict(self.options))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        return self

    def ready(self) -> tuple[Path, Path]:
        """Wait until the nodes can be reached; returns the folder and the ssh_config. Raises :class:`DemoError`."""
        if self._paths is None:
            host = self._host
            assert host is not None, "the demo is used outside its with block"
            assert host.stdout is not None
            assert host.stderr is not None
            line = host.stdout.readline() if select.select([host.stdout], [], [], START)[0] else b""
            if not line:
                host.kill()
                said = host.stderr.read().decode(errors="replace").strip().splitlines()
                raise DemoError(f"the demo did not start: {said[-1] if said else 'no answer within 30 s'}")
            folder, ssh_config = json.loads(line)
            self._paths = Path(folder), Path(ssh_config)
        return self._paths

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        host = self._host
        assert host is not None
        for pipe in (host.stdin, host.stdout, host.stderr):
            if pipe is not None:
                pipe.close()
        try:
            host.wait(END)
        except subprocess.TimeoutExpired:
            host.kill()
            host.wait()
        until = time.monotonic() + END
        while self._paths is not None and self._paths[0].exists() and time.monotonic() < until:
            time.sleep(0.02)
