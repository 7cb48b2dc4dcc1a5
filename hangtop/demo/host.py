"""The process that runs a demo: SSH servers, ranks, simulated devices and their folder.

The process prints one line of JSON with the connection, and ends at the end of its standard input. Nothing outlives the
process: ranks and commands are in its process group, and a shell that waits for the end of a pipe kills the rest of the
group and removes the folder.
"""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from hangtop.demo import ranks
from hangtop.demo.devices.bench import Bench, Hardware
from hangtop.demo.options import DEVICE_FAULTS, DemoOptions

_REAPER = 'trap "" HUP INT TERM; cat >/dev/null; kill -s KILL -- "-$1" 2>/dev/null; sleep 0.1; rm -rf -- "$2"'


def start_reaper(folder: Path) -> int:
    """Start the shell that cleans up after this process; returns a descriptor that must stay open until its end."""
    watched, held = os.pipe()
    subprocess.Popen(
        ["/bin/sh", "-c", _REAPER, "hangtop-demo-reaper", str(os.getpgrp()), str(folder)],
        stdin=watched,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.close(watched)
    return held


class DemoHost:
    """One demo's nodes and ranks."""

    def __init__(self, options: DemoOptions, folder: Path) -> None:
        self.options = options
        self.folder = folder
        hardware = Hardware(gpus=options.ranks_per_node, ports=options.ranks_per_node)
        self.benches = [Bench(folder / name, hardware) for name in options.node_names]

    def environment(self, node: int) -> dict[str, str]:
        """Environment of a command on this node: its tools and its ranks, without this machine's own adapters."""
        bench = self.benches[node]
        home = bench.folder / "home"
        home.mkdir(exist_ok=True)
        kept = {name: os.environ[name] for name in ("LANG", "LC_ALL", "SHELL") if name in os.environ}
        return {
            **kept,
            "HOME": str(home),
            "TMPDIR": str(home),
            "USER": pwd.getpwuid(os.getuid()).pw_name,
            "PATH": os.pathsep.join([str(bench.bin), str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
            "HANGTOP_SYS": str(bench.folder / "sys"),
            "HANGTOP_ONLY": f"{ranks.NODE}={bench.folder}",
        }

    async def run(self) -> None:
        """Serve until standard input ends."""
        from hangtop.demo.servers import Servers

        for bench in self.benches:
            bench.install()
        environments = {name: self.environment(node) for node, name in enumerate(self.options.node_names)}
        servers = Servers(self.folder, environments)
        ssh_config = await servers.start()
        started = ranks.start(self.options, self.folder, lambda node: self.benches[node].folder)
        print(json.dumps([str(self.folder), str(ssh_config)]), flush=True)  # noqa: T201
        planting = asyncio.create_task(self._plant_device_fault())
        reaping = asyncio.create_task(_reap(started))
        try:
            await _end_of_input()
        finally:
            planting.cancel()
            reaping.cancel()
            await servers.close()

    async def _plant_device_fault(self) -> None:
        """Plant the fault of a device ``options.after`` seconds after the first step."""
        if self.options.fault not in DEVICE_FAULTS:
            return
        while not ranks.training(self.folder, self.options):  # noqa: ASYNC110 - other processes write what is waited for
            await asyncio.sleep(0.2)
        await asyncio.sleep(self.options.after)
        node, local = divmod(self.options.fault_rank, self.options.ranks_per_node)
        self.benches[node].plant(DEVICE_FAULTS[self.options.fault][0].format(local=local))


async def _reap(started: list[subprocess.Popen[bytes]]) -> None:
    """Collect ranks that have ended, so that they are no zombies."""
    while True:
        for process in started:
            process.poll()
        await asyncio.sleep(0.5)


async def _end_of_input() -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while await reader.read(4096):
        pass


def main() -> None:
    """Run one demo with the options in the first argument (JSON of :class:`DemoOptions`)."""
    options = DemoOptions(**json.loads(sys.argv[1]))
    folder = Path(tempfile.mkdtemp(prefix="hangtop-demo-"))
    held = start_reaper(folder)
    try:
        asyncio.run(DemoHost(options, folder).run())
    except KeyboardInterrupt:
        pass
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(held)


if __name__ == "__main__":
    main()
