"""Everything that reads what a node, an archive or a recording says, with inputs to begin with."""

from __future__ import annotations

import atexit
import contextlib
import gzip
import json
import shutil
import tarfile
import tempfile
from collections.abc import Callable
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

from collectors.fleet.clean import clean_bytes
from collectors.fleet.decode import Decoder
from collectors.formats import BadFormat, flight_recorder, kineto, nccl_tests, pickled, ras, stack_text
from collectors.node import redact as redaction
from collectors.node.gpus.nvidia_smi import rejected_field
from collectors.node.logs import file_names as names
from collectors.node.logs.parser import LogParser, kernel_events
from collectors.node.machine.kernel import parse_dmesg, parse_kmsg
from collectors.node.netlink import messages
from collectors.node.network import fabric
from collectors.node.network import source as network_source
from collectors.node.processes import environ, mounts, procfs
from collectors.node.processes.sockets import tcp_socket
from collectors.node.stacks import pyspy_output
from collectors.node.stacks.flamerecord import FlameRecording as Recorded
from collectors.node.stacks.pyspy import WantsPySpy
from collectors.probes.allreduce.nccl import network_of
from collectors.probes.flame import profile
from collectors.probes.infiniband import parse_bandwidth, parse_devinfo
from collectors.probes.path import parse_iperf
from collectors.probes.remote.allreduce import WorkerReport
from collectors.probes.remote.repair import Signalled
from collectors.probes.running import Unreadable, answer
from collectors.samples.probes import Observation, PathFigure, RasAnswer, RecorderFile
from collectors.samples.registry import SAMPLES
from hangtop.diagnosis.verdict.verdict import diagnose
from hangtop.session.folder.session import FilesSession
from hangtop.session.options import SessionOptions
from hangtop.session.recording import Recording, RecordingError
from hangtop.session.session import Session
from tests.support.ib_tools import BANDWIDTH, DEVINFO, PING, ROUTE
from tests.support.made import gpu_row, hello, process, pulse, tick

FIXTURES = Path(__file__).parent.parent / "fixtures"
LONGEST = 20_000
"""Bytes of an input at most."""


class Target(NamedTuple):
    """Something that reads bytes."""

    read: Callable[[bytes], object]
    seeds: tuple[bytes, ...]
    whole: bool = False
    """True for what is nothing once it is cut: archives, recordings."""


def fixtures(pattern: str, most: int = LONGEST) -> tuple[bytes, ...]:
    """The beginnings of the fixtures that match a pattern."""
    return tuple(path.read_bytes()[:most] for path in sorted(FIXTURES.glob(pattern)) if path.is_file())


@cache
def _folder() -> str:
    """One for each process, as several collect the same tests at one moment; it goes with the process."""
    folder = tempfile.mkdtemp(prefix="hangtop-fuzz-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def in_file(data: bytes, name: str) -> Path:
    """A file with these bytes, for what reads files; the next one of the same name replaces it."""
    path = Path(_folder(), name)
    path.write_bytes(data)
    return path


_READERS = [
    answer(kind)
    for kind in (
        Observation, PathFigure, RasAnswer, RecorderFile, Signalled, WorkerReport, Recorded, WantsPySpy,
    )
]  # fmt: skip


def _kernel(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    kernel_events([(1.0, line) for line in text.splitlines()], "dmesg")
    parse_dmesg(text)
    parse_kmsg(data)


def _words(data: bytes) -> None:
    words = data.decode("utf-8", "replace").split("\0")
    redaction.command(words, 2048)
    redaction.shapes(words[0])
    environ.presentable(environ.parse(data))
    environ.rank_of(environ.parse(data))
    names.hints(words[0])


def _proc(data: bytes) -> None:
    procfs.parse_stat(data)
    procfs.parse_status(data, 4711)
    procfs.parse_io(data)
    procfs.parse_wchan(data)
    procfs.parse_cgroup(data)
    mounts.parse(data.decode("utf-8", "replace"))
    network_source.parse_snmp_tcp(data)
    for _, body in messages(data):
        tcp_socket(body)


def _stacks(data: bytes) -> None:
    pyspy_output.failure(data)
    try:
        pyspy_output.threads(data, 4711, 7)
    except (ValueError, RecursionError):  # the dumper says "torn" for both
        return


def _tools(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    fabric.parse_perfquery(text)
    parse_devinfo("node1", text)
    parse_bandwidth(text)
    parse_iperf(text)


def _log(data: bytes) -> None:
    parser = LogParser("rank_3.log", now=1.7e9)
    cut = len(data) // 2
    events = parser.feed(data[:cut]) + parser.feed(data[cut:]) + parser.close()
    json.dumps([tuple(event) for event in events])
    json.dumps([tuple(one) for one in parser.collectives.known()])
    decoder = Decoder()
    for event in events:  # what leaves a node arrives
        decoder.feed(json.dumps(["LogEvent", event]).encode() + b"\n")
    assert not [bad.why for bad in decoder.bad_lines() if "Expected" in bad.why]


def _stream(data: bytes) -> None:
    session, decoder = Session(SessionOptions(), clock=lambda: 1.7e9), Decoder()
    samples = decoder.feed(data + b"\n")
    if samples:
        session.samples("node", samples)
    for bad in decoder.bad_lines():
        session.bad_line("node", *bad)
    session.tick()
    session.job()


def _reading(read: Callable[[bytes], object], *documented: type[Exception]) -> Callable[[bytes], None]:
    """A target that may raise what it documents."""

    def target(data: bytes) -> None:
        try:
            read(data)
        except documented:
            return

    return target


def _text(read: Callable[[str], object], *documented: type[Exception]) -> Callable[[bytes], None]:
    return _reading(lambda data: read(data.decode("utf-8", "replace")), *documented)


def _analyze(data: bytes) -> None:
    assert diagnose(FilesSession([in_file(data, "logs.bin")]).job()).outcome


def _recording(data: bytes) -> None:
    recording = Recording(in_file(data, "x.hangtop"))
    assert list(recording.entries()) or recording.damage


def _answers(data: bytes) -> None:
    for line in data.splitlines():
        for read in _READERS:
            with contextlib.suppress(*Unreadable):
                read(line)


def _trace(data: bytes) -> None:
    kineto.of_stream(BytesIO(data).read, "x.json")


def _archives() -> tuple[bytes, ...]:
    tarred = BytesIO()
    with tarfile.open(fileobj=tarred, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name in ("rank0.log", "n" * 120 + "/é.log"):
            entry = tarfile.TarInfo(name)
            entry.size = 16
            tar.addfile(entry, BytesIO(b"RuntimeError: x\n"))
    plain = tarred.getvalue()
    return plain, gzip.compress(plain)


def _recorded() -> bytes:
    path = in_file(b"", "seed.hangtop")
    path.unlink()
    session = Session(SessionOptions(), clock=lambda: 2.0)
    session.recordings.record(path)
    session.samples("a", [hello(1.0), process(0), tick(1.0, 1)])
    session.recordings.close()
    return path.read_bytes()


def _samples() -> tuple[bytes, ...]:
    made = [hello(1.7e9), process(0), pulse(1000), gpu_row(0), tick(1.7e9, 1)]
    return tuple(json.dumps([type(one).__name__, one]).encode() for one in made) + tuple(
        json.dumps([kind.__name__, [1] * len(kind._fields)]).encode() for kind in SAMPLES
    )


def targets() -> dict[str, Target]:
    """All targets, with inputs to begin with."""
    lines = fixtures("seeds/lines/*")
    logs = fixtures("logs/*.txt", 6000)
    dumps = tuple(path.read_bytes() for path in sorted((FIXTURES / "recorder").iterdir())[-3:])
    devices = fixtures("devices/*", 8000)
    traced = tuple(gzip.decompress(path.read_bytes())[:LONGEST] for path in sorted(FIXTURES.glob("traces/*0.json.gz")))
    printed = tuple(text.encode() for text in (DEVINFO, BANDWIDTH, ROUTE, PING))
    printed += fixtures("seeds/iperf/*") + fixtures("devices/perfquery*")
    refused = b"Error: Failed to suspend process\n\nCaused by:\n    EPERM\n"
    return {
        "log": Target(_log, logs + lines),
        "nccl_log": Target(network_of, lines),
        "stream": Target(_stream, _samples()),
        "clean": Target(
            clean_bytes, (b"\x1b[31mred\x1b]8;;http://x\x07link\x9c", "a\u202eb\u200b".encode(), *logs[:2])
        ),
        "ras": Target(_text(lambda text: ras.parse(text, at=0.0), BadFormat), fixtures("ras/*")),
        "pyspy": Target(_text(lambda text: stack_text.read(text, at=0.0), BadFormat), fixtures("stacks/a*.jsonl")),
        "recorder": Target(_reading(lambda data: flight_recorder.read(data, "dump_3"), BadFormat), dumps),
        "pickle": Target(_reading(pickled.load, BadFormat), dumps[:2], whole=True),
        "nccl_tests": Target(_text(nccl_tests.parse), fixtures("seeds/nccl_tests/*")),
        "smi_text": Target(_text(rejected_field), devices),
        "answers": Target(_answers, fixtures("seeds/answers/*")),
        "trace": Target(_reading(_trace, BadFormat), traced),
        "folded": Target(_text(lambda text: list(profile([("rank 0", text)]).walk())), (b"a;b (x.py:1) 3\na;c 5\n",)),
        "analyze": Target(_analyze, _archives() + dumps + devices + logs[:4] + traced, whole=True),
        "recording": Target(_reading(_recording, RecordingError), (_recorded(),), whole=True),
        "kernel": Target(_kernel, fixtures("seeds/lines/*")),
        "words": Target(_words, fixtures("seeds/words/*")),
        "proc": Target(_proc, fixtures("seeds/proc/*")),
        "stacks": Target(_stacks, (*fixtures("stacks/a*.jsonl"), refused)),
        "tools": Target(_tools, printed),
    }
