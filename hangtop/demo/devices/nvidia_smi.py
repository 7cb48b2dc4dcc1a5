"""A simulated nvidia-smi with the options that hangtop uses: bare queries in CSV, and the topology."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Sequence

from hangtop.demo.devices.gpu_model import GpuModel, bus_id
from hangtop.demo.devices.state import DeviceFolder

APP_FIELDS = frozenset({"gpu_bus_id", "pid", "process_name", "used_gpu_memory"})
NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA "
    "driver is installed and running.\n"
)


class ToolRefused(Exception):
    """The tool ends with this text on standard output; ``status``: its exit status."""

    def __init__(self, said: str, status: int) -> None:
        super().__init__(said)
        self.status = status


class Smi:
    """One run of the tool."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self.node = DeviceFolder()
        self.gpus = [GpuModel(self.node, index) for index in range(self.node.hardware["gpus"])]
        self.options = dict(_options(arguments))

    def run(self) -> None:
        """Print the answer, repeatedly with ``-lms``."""
        answer = self._answer()
        period = int(self.options.get("-lms", 0)) / 1000
        while True:
            self._driver()
            sys.stdout.write("".join(f"{line}\n" for line in answer()))
            sys.stdout.flush()
            if not period:
                return
            time.sleep(period)

    def _answer(self) -> Callable[[], list[str]]:
        if "--query-gpu" in self.options:
            hidden = self.node.hardware["hidden_fields"]
            known = [name for gpu in self.gpus[:1] for name in gpu.fields() if name not in hidden]
            fields = _fields(self.options["--query-gpu"], known)
            return lambda: self._rows(fields)
        if "--query-compute-apps" in self.options:
            apps = _fields(self.options["--query-compute-apps"], APP_FIELDS)
            return lambda: self._apps(apps)
        if "topo" in self.options:
            return self._topology
        raise ToolRefused(
            f"ERROR: Option {next(iter(self.options))} is not recognized by the simulated nvidia-smi.\n", 2
        )

    def _driver(self) -> None:
        """Block or fail according to planted faults of the driver."""
        while "driver wedged" in self.node.faults():
            time.sleep(0.1)
        if "driver dies" in self.node.faults():
            raise ToolRefused("Failed to initialize NVML: Unknown Error\n", 255)
        if "driver gone" in self.node.faults():
            raise ToolRefused(NO_DRIVER, 9)

    def _rows(self, fields: Sequence[str]) -> list[str]:
        lines = []
        faults = self.node.faults()
        for index, gpu in enumerate(self.gpus):
            if f"gpu{index} missing" in faults:
                continue
            if f"gpu{index} lost" in faults:
                lines.append(f"Unable to determine the device handle for GPU{index}: {bus_id(index)}: Unknown Error")
                continue
            values = gpu.fields()
            lines.append(", ".join(values[name] for name in fields))
        return lines

    def _apps(self, fields: Sequence[str]) -> list[str]:
        lines = []
        for index in range(len(self.gpus)):
            if (use := self.node.use(index)).pid:
                values = {"gpu_bus_id": bus_id(index), "pid": str(use.pid), "process_name": "python",
                          "used_gpu_memory": str(use.memory >> 20)}  # fmt: skip
                lines.append(", ".join(values[name] for name in fields))
        return lines

    def _topology(self) -> list[str]:
        """Every two GPUs are connected by NVLink, except to GPUs with the fault ``unlinked``."""
        gone = {gpu for gpu in range(len(self.gpus)) if f"gpu{gpu} unlinked" in self.node.faults()}
        names = [f"GPU{gpu}" for gpu in range(len(self.gpus))]
        lines = ["\t".join(["", *names, "CPU Affinity", "NUMA Affinity"])]
        for row, name in enumerate(names):
            cells = ["X" if row == other else "SYS" if {row, other} & gone else "NV18" for other in range(len(names))]
            lines.append("\t".join([name, *cells, "0-31", "0"]))
        return lines


def _fields(asked: str, known: Collection[str]) -> list[str]:
    fields = [name.strip() for name in asked.split(",")]
    for name in fields:
        if name not in known:
            raise ToolRefused(f'Field "{name}" is not a valid field to query.\n\n', 2)
    return fields


def _options(arguments: Sequence[str]) -> list[tuple[str, str]]:
    """Options and their values; the value of ``-lms`` is the next word."""
    options: list[tuple[str, str]] = []
    rest = list(arguments)
    while rest:
        name, _, value = rest.pop(0).partition("=")
        options.append((name, rest.pop(0) if name == "-lms" else value))
    return options


def main(arguments: Sequence[str]) -> int:
    """Run the tool and return the exit status."""
    try:
        Smi(arguments).run()
    except ToolRefused as refused:
        sys.stdout.write(str(refused))
        return refused.status
    except (BrokenPipeError, KeyboardInterrupt):
        return 1
    return 0
