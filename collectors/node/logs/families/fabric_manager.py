"""Lines of NVIDIA's Fabric Manager, of its own log file: NVLink errors of GPUs, and ports between switches that fail.

``[Oct 13 2025 18:14:38] [ERROR] [tid 202] Fabric Manager detected GPU NVL Fatal error on :``, then a field a line;
``[WARNING] [tid 134] Trunk port failure detected for switch GUID 0x… port number 61 …``. Those of NVSwitches, which the
kernel's log has too, are read by ``kernel``. Where the files lie is said in ``fabricmanager.cfg`` (LOG_FILE_NAME).
"""

from __future__ import annotations

import os
from typing import Iterator, List

from collectors.node import late_re as re
from collectors.node.files import read_or_none, text
from collectors.node.logs.said import Family, Said, number

CONFIGURATIONS = ("/usr/share/nvidia/nvswitch/fabricmanager.cfg", "/etc/nvidia-imex/config.cfg")
USUAL = ("/var/log/fabricmanager.log", "/var/log/nvidia-imex.log")
_NAME = re.compile(r"^[ \t]*LOG_FILE_NAME[ \t]*=[ \t]*(/[^\s#]{1,400})", re.MULTILINE)
_GPU = re.compile(r"Fabric Manager detected GPU NVL (?P<kind>Non[ -]?Fatal|Fatal) error", re.IGNORECASE)
_TRUNK = re.compile(r"Trunk port failure detected for switch GUID (?P<switch>0x[0-9a-f]{1,32})(?P<rest>.{0,300})", re.I)
_SERVICE = re.compile(
    r"(?P<why>Job for nvidia-fabricmanager\.service failed[^\r\n]{0,80}"
    r"|nvidia-fabricmanager\.service: (?:Control|Main) process exited, code=\w{1,12}, status=[1-9]\d{0,2}[^\r\n]{0,20}"
    r"|nvidia-fabricmanager\.service: Failed with result [^\r\n]{1,20}"
    r"|nv-fabricmanager [^\r\n]{1,120} failed! Exit code: [1-9]\d{0,2}"
    r"|fabric manager config file item: \w{1,60} has an invalid value)"
)
_STARTED = re.compile(r"(?:^|systemd\[\d{1,10}\]: )Started (?:NVIDIA )?[Ff]abric ?[Mm]anager ", re.I)
"""systemd's words about the service, its starter's and the program's own."""
_PORT = re.compile(r"port number (\d{1,6})")


def read(text: str) -> Iterator[Said]:
    """Events of one line."""
    gpu = _GPU.search(text)
    if gpu is not None:
        yield Said("kernel.fabric_manager", {"fatal": gpu.group("kind").lower() == "fatal", "what": "gpu"})
    service, started = _SERVICE.search(text), _STARTED.search(text)
    if service is not None:
        yield Said("kernel.fabric_manager", {"fatal": False, "what": "service", "why": service.group("why")})
    elif started is not None:
        yield Said("kernel.fabric_manager", {"fatal": False, "what": "started"})
    trunk = _TRUNK.search(text)
    if trunk is not None:
        port = _PORT.search(trunk.group("rest"))
        data = {"fatal": False, "what": "trunk", "switch": trunk.group("switch")}
        yield Said("kernel.fabric_manager", {**data, "port": number(port.group(1)) if port is not None else None})


def places(root: str = "") -> List[str]:
    """Log files of Fabric Manager and IMEX on this node, where they are configured or as usual; those that exist."""
    found = []
    for configuration, usual in zip(CONFIGURATIONS, USUAL):
        named = _NAME.search(text(read_or_none(root + configuration) or b""))
        found.append(root + (named.group(1) if named is not None else usual))
    return [path for path in found if os.path.isfile(path)]


FAMILY = Family(
    "fabric_manager", (b"GPU NVL ", b"Trunk port failure", b"abricmanager", b"abric manager", b"abricManager"), read
)
