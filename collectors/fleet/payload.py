"""The payload: modules of hangtop that run on a node from memory, and the command that starts them.

On the wire: the sizes of body and arguments as 8 hexadecimal digits each, the body (zlib), the arguments (JSON). The
body is the loader's source, a NUL, an index line (JSON) and the files one after another. Whatever follows on the same
standard input is control lines for the program that was started. Docstrings are stripped, but every line keeps its
number, so that a traceback from a node names the lines of the checkout.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Mapping
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import collectors
from collectors.node import wire
from collectors.node.resources import LOW
from collectors.samples.stream import Lent

_ROOT = Path(collectors.__file__).parent
_LOADER = "collectors.node.loader"
_WATCH = "node/gpus/nvml_watch.py"

# Every read re-arms an alarm, so that a link that is cut in the middle of the payload leaves nothing behind.
_BOOTSTRAP = f"""\
import os, signal, sys, zlib
os.nice(int(sys.argv[2]))
signal.signal(signal.SIGALRM, signal.SIG_DFL)
def take(count):
    parts = []
    while count:
        signal.alarm(10)
        part = os.read(0, min(count, 65536))
        if not part:
            sys.exit("hangtop: the connection ended before all of the program had come")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
sizes = int(take(8), 16), int(take(8), 16)
source, nul, body = zlib.decompress(take(sizes[0])).partition(bytes(1))
loader = sys.modules["{_LOADER}"] = type(sys)("{_LOADER}")
exec(compile(source, "hangtop:loader", "exec"), loader.__dict__)
loader.run(globals().pop("body"), take(sizes[1]))
"""
_PROGRAM = f"exec({_BOOTSTRAP!r})"


def command(python: str = "python3", nice: bool = True, *, site: bool = False) -> list[str]:
    """Words of the command that waits for a payload on its standard input and runs it.

    ``python`` is the path or name of an interpreter there. It is isolated from the node's Python settings (``-I -S``)
    and writes no byte code (``-B``). The program is one word without a line break, because csh allows none inside
    quotes. ``nice`` starts it at low priority; the agent lowers its own priority once it is up and does not need that.
    ``site`` lets the program import what is installed for the interpreter (a probe needs the job's own torch).
    """
    niceness = str(LOW if nice else 0)
    isolation = [] if site else ["-I", "-S"]
    return [python, *isolation, "-B", "-u", "-c", _PROGRAM, "hangtop", niceness]


def shown(entry: str, arguments: str, nice: bool = True) -> str:
    """The command as a confirmation dialog shows it; LOADER, 1 KB of Python, reads the program from standard input.

    Example: ``python3 -I -S -B -u -c LOADER hangtop 19  (runs collectors.node.network.path, listen=true)``.
    """
    words = " ".join("LOADER" if word == _PROGRAM else word for word in command(nice=nice))
    return f"{words}  (LOADER runs {entry}, which comes through its input, with {arguments})"


def pack(entry: str, arguments: object = None, *, extra: Mapping[str, bytes] | None = None) -> bytes:
    """Payload that imports the module ``entry`` on the node and calls its ``main(arguments)``.

    It includes the modules of ``collectors`` that the entry imports or names as ``"module:class"``. ``extra`` maps
    names of further files to their contents: modules end in ``.py`` (``pynvml.py``), the program gets other files by
    ``collectors.node.loader.blob(name)``. ``arguments`` must be JSON; ``entry`` may be one of ``extra``. Raises
    :class:`FileNotFoundError` for a module that does not exist.
    """
    body = _body(entry, tuple(sorted((extra or {}).items())))
    said = json.dumps(arguments).encode()
    return b"%08x%08x%b%b" % (len(body), len(said), body, said)


@lru_cache(maxsize=8)
def _body(entry: str, extra: tuple[tuple[str, bytes], ...]) -> bytes:
    """The compressed body, made once for all nodes: only their arguments differ."""
    files: dict[str, tuple[str, bytes]] = {}
    wanted = [] if f"{entry}.py" in dict(extra) else [entry]
    for name, content in extra:
        if name.endswith(".py"):
            files[name.removesuffix(".py").replace("/", ".")] = ("module", content)
            wanted += _imports(content)
        else:
            files[name] = ("blob", content)
    for module in wanted:  # grows while it is walked
        if module not in files:
            path = _path(module)
            content = path.read_bytes()
            files[module] = ("package" if path.name == "__init__.py" else "module", content)
            wanted += [*_imports(content), *filter(None, [module.rpartition(".")[0]])]
    loader = files.pop(_LOADER, None) or ("module", (_ROOT / "node" / "loader.py").read_bytes())
    for name, (kind, content) in files.items():
        if name.startswith("collectors."):
            files[name] = kind, stripped(content)
    index = json.dumps([entry, [[name, kind, len(content)] for name, (kind, content) in files.items()]])
    whole = b"".join([stripped(loader[1]), b"\0", index.encode(), b"\n", *(content for _, content in files.values())])
    return zlib.compress(whole, 6)


_TRIPLE_QUOTED = re.compile(rb'(?P<doc>(?<=\n)[ ]*)?"""(?:[^"\\]|\\.|"(?!""))*"""(?P<end>(?=\n))?', re.DOTALL)


def stripped(source: bytes) -> bytes:
    """A module's source without docstrings, which are a third of it; each line keeps its number.

    It uses a pattern: parsing all modules would add a third of a second to each start. A test compares the results.
    """

    def without(found: re.Match[bytes]) -> bytes:
        if found["doc"] is None or found["end"] is None:
            return found[0]
        return found["doc"] + b'""' + b"\n" * found[0].count(b"\n")  # the docstring may be the whole body

    return _TRIPLE_QUOTED.sub(without, b"\n" + source)[1:]  # a docstring may be the first line


_IMPORT = re.compile(
    r"^[ \t]*from (collectors[\w.]*) import (\([^)]*\)|[^\n#]*)"
    r"|\"(collectors[\w.]+):\w+\"",
    re.MULTILINE,
)


def _imports(source: bytes) -> list[str]:
    """Modules of ``collectors`` that a source imports or names as ``"module:class"``.

    It uses a pattern: parsing all modules would add a tenth of a second to each start.
    """
    found: list[str] = []
    for package, names, named in _IMPORT.findall(source.decode()):
        if package:
            inner = [f"{package}.{name}" for name in re.findall(r"\w+", names)]
            found += [package, *(name for name in inner if _path(name).exists())]
        else:
            found.append(named)
    return found


def _path(module: str) -> Path:
    """File of a module; for a package its ``__init__.py``."""
    path = _ROOT.parent.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@lru_cache(maxsize=8)
def lent(name: str) -> bytes | None:
    """Control line with the modules that a node requests as ``name``; None if they are not installed here."""
    bindings = find_spec("pynvml") if name == "nvml" else None
    if bindings is None or bindings.origin is None:
        return None
    sources = {"pynvml": Path(bindings.origin).read_text("utf-8"), "nvml_watch": (_ROOT / _WATCH).read_text("utf-8")}
    return wire.encode(Lent(name, base64.b64encode(zlib.compress(json.dumps(sources).encode(), 9)).decode()))
