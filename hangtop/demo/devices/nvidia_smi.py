"""A simulated nvidia-smi with the options that monitors use: queries in CSV, looping, the list."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Sequence
from itertools import count

from hangtop.demo.devices.gpu_model import UNITS, GpuModel, bus_id, uuid
from hangtop.demo.devices.state import DeviceFolder

APP_UNITS = {"used_gpu_memory": "MiB", "used_memory": "MiB"}
NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA "
    "driver is installed and running.\n"
)


class ToolRefused(Exception):
    """The tool ends with this word on standard output; ``status`` is its exit status."""

    def __init__(self, said: str, status: int) -> None:
        super().__init__(said)
        self.status = status


class Smi:
    """One run of the tool."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self.node = DeviceFolder()
        self.gpus = [GpuModel(self.node, index) for index in range(self.node.hardware["gpus"])]
        self.options = dict(_options(arguments))
        formats = self.options.get("--format", "").split(",")
        self._header = "noheader" not in formats
        self._units = "nounits" not in formats

    def run(self) -> None:
        """Answer, again and again if asked to loop."""
        answer = self._answer()
        period = self._period()
        for sweep in count():
            self._driver()
            sys.stdout.write(answer(sweep == 0))
            sys.stdout.flush()
            if not period:
                return
            time.sleep(period)

    def _answer(self) -> Callable[[bool], str]:
        if "--help-query-gpu" in self.options:
            return lambda _first: self._help()
        if "--query-gpu" in self.options:
            fields = self._fields(self.options["--query-gpu"], self._known())
            return lambda first: self._rows(fields, first)
        if "--query-compute-apps" in self.options:
            fields = self._fields(self.options["--query-compute-apps"], APP_FIELDS)
            return lambda first: self._apps(fields, first)
        if "topo" in self.options:
            return lambda _first: self._topology()
        if "-L" in self.options:
            return lambda _first: self._list()
        raise ToolRefused(
            f"ERROR: Option {next(iter(self.options))} is not recognized by the simulated nvidia-smi.\n", 2
        )

    def _period(self) -> float:
        if "-lms" in self.options:
            return int(self.options["-lms"]) / 1000
        return float(self.options.get("-l", 0))

    def _driver(self) -> None:
        """Suffer what is planted in the driver."""
        while "driver wedged" in self.node.faults():
            time.sleep(0.1)
        if "driver dies" in self.node.faults():
            raise ToolRefused("Failed to initialize NVML: Unknown Error\n", 255)
        if "driver gone" in self.node.faults():
            raise ToolRefused(NO_DRIVER, 9)

    def _known(self) -> frozenset[str]:
        hidden = self.node.hardware["hidden_fields"]
        return frozenset(name for name in self.gpus[0].fields() if name not in hidden) if self.gpus else frozenset()

    def _fields(self, asked: str, known: frozenset[str]) -> list[str]:
        fields = [name.strip() for name in asked.split(",")]
        for name in fields:
            if name not in known or name in self.node.hardware["refused_fields"]:
                raise ToolRefused(f'Field "{name}" is not a valid field to query.\n\n', 2)
        return fields

    def _help(self) -> str:
        listed = "".join(f'"{name}"\nSimulated.\n\n' for name in sorted(self._known()))
        return f'List of valid properties to query for the switch "--query-gpu":\n\n{listed}'

    def _rows(self, fields: Sequence[str], first: bool) -> str:
        lines = [", ".join(_titled(name, UNITS) for name in fields)] if first and self._header else []
        faults = self.node.faults()
        for index, gpu in enumerate(self.gpus):
            if f"gpu{index} missing" in faults:
                continue
            if f"gpu{index} lost" in faults:
                lines.append(f"Unable to determine the device handle for GPU{index}: {bus_id(index)}: Unknown Error")
                continue
            values = gpu.fields()
            lines.append(", ".join(self._cell(name, values[name], UNITS) for name in fields))
        return "".join(f"{line}\n" for line in lines)

    def _apps(self, fields: Sequence[str], first: bool) -> str:
        lines = [", ".join(_titled(name, APP_UNITS) for name in fields)] if first and self._header else []
        for index in range(len(self.gpus)):
            use = self.node.use(index)
            if not use.pid:
                continue
            values = {
                "gpu_bus_id": bus_id(index),
                "gpu_uuid": uuid(index),
                "pid": str(use.pid),
                "process_name": "python",
                "used_gpu_memory": str(use.memory >> 20),
                "used_memory": str(use.memory >> 20),
            }
            lines.append(", ".join(self._cell(name, values[name], APP_UNITS) for name in fields))
        return "".join(f"{line}\n" for line in lines)

    def _list(self) -> str:
        name = self.node.hardware["name"]
        return "".join(f"GPU {gpu}: {name} (UUID: {uuid(gpu)})\n" for gpu in range(len(self.gpus)))

    def _topology(self) -> str:
        """Every two GPUs are connected by NVLink, but those of a GPU whose links are planted to be gone."""
        gone = {gpu for gpu in range(len(self.gpus)) if f"gpu{gpu} unlinked" in self.node.faults()}
        names = [f"GPU{gpu}" for gpu in range(len(self.gpus))]
        lines = ["\t".join(["", *names, "CPU Affinity", "NUMA Affinity"])]
        for row, name in enumerate(names):
            cells = ["X" if row == other else "SYS" if {row, other} & gone else "NV18" for other in range(len(names))]
            lines.append("\t".join([name, *cells, "0-31", "0"]))
        return "".join(f"{line}\n" for line in lines)

    def _cell(self, name: str, value: str, units: dict[str, str]) -> str:
        unit = units.get(name)
        return f"{value} {unit}" if self._units and unit and re.fullmatch(r"[\d.]+", value) else value


APP_FIELDS = frozenset({"gpu_bus_id", "gpu_uuid", "pid", "process_name", *APP_UNITS})


def _titled(name: str, units: dict[str, str]) -> str:
    return f"{name} [{units[name]}]" if name in units else name


def _options(arguments: Sequence[str]) -> list[tuple[str, str]]:
    """Options and their values, in nvidia-smi's several spellings."""
    options: list[tuple[str, str]] = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        name = {"--list-gpus": "-L", "--loop-ms": "-lms", "--loop": "-l"}.get(name, name)
        if name in ("-lms", "-l") and not equals:
            value = rest.pop(0) if rest else "5"
        options.append((name, value))
    return options


def main(arguments: Sequence[str]) -> int:
    """Run the tool; the exit status."""
    try:
        Smi(arguments).run()
    except ToolRefused as refused:
        sys.stdout.write(str(refused))
        return refused.status
    except (BrokenPipeError, KeyboardInterrupt):
        return 1
    return 0
