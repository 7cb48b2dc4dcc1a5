"""Fatal reports of simulation programs, whose first line tells that they end and the next ones why.

Formats: OpenFOAM's ``error`` and ``IOerror`` (in parallel each line has the rank in front: ``[3] --> FOAM FATAL
ERROR:``), CMSSW's ``Begin Fatal Exception``, GROMACS's ``gmx_fatal``, AMReX's ``3::Assertion `…' failed`` and
``amrex::Abort::3::… !!!``, LAMMPS's ``ERROR on proc 3: …``.
"""

from __future__ import annotations

from typing import Iterator, Optional

from collectors.node import late_re as re
from collectors.node.logs.said import Family, Said, number

_FOAM = re.compile(
    r"^(?:\[(?P<rank>\d{1,7})\] ?)?--> FOAM FATAL (?P<io>IO )?ERROR ?:? ?(?:\([\w.+-]{1,40}\))?"
    r"(?: ?\[\d{1,7}\])?(?P<what>[^\r\n]{0,600})"
)
_CMS = re.compile(
    r"^-{3,8} ?Begin Fatal Exception\b(?:[^\r\n]{0,120}?-{4,80})?"
    r"(?: ?An exception of category '(?P<category>[\w :]{1,80})' occurred while(?P<doing>[^\r\n]{0,300}))?"
)
_GROMACS = re.compile(
    r"^Source file: (?P<file>src/(?:gromacs|programs)/[\w./+-]{1,200}) \(line (?P<line>\d{1,6})\)"
    r"(?: ?MPI rank: {1,8}(?P<rank>\d{1,7}) \(out of \d{1,7}\))?"
)
_AMREX = re.compile(
    r"\b(?:Abort|Error|Assert)::(?P<rank>\d{1,7})::(?P<what>[^\r\n]{1,400}?) ?!!!"
    r"|^(?P<on>\d{1,7})::(?P<failed>Assertion `[^\r\n]{1,300}?' failed, file \"[^\"\r\n]{1,300}\", line \d{1,6})"
)
_LAMMPS = re.compile(
    r"^ERROR on proc (?P<rank>\d{1,7}): (?P<what>[^\r\n]{4,500}? \([\w./+-]{1,200}\.(?:cpp|h):\d{1,6}\))"
)
"""``Error::one`` of LAMMPS, which aborts all."""


def read(text: str) -> Iterator[Said]:
    """Events of one record."""
    foam, gromacs, amrex = _FOAM.match(text), _GROMACS.match(text), _AMREX.search(text)
    if foam is not None:
        yield _ended(foam.group("what").strip() or "a fatal error of OpenFOAM", foam.group("rank"))
        return
    if gromacs is not None:
        yield _ended("a fatal error at %s:%s" % gromacs.group("file", "line"), gromacs.group("rank"))
        return
    if amrex is not None:
        yield _ended((amrex.group("what") or amrex.group("failed")).strip(), amrex.group("rank") or amrex.group("on"))
        return
    lammps = _LAMMPS.match(text)
    if lammps is not None:
        yield _ended(lammps.group("what"), lammps.group("rank"))
        return
    cms = _CMS.match(text)
    if cms is not None:
        what = "a fatal exception"
        if cms.group("category"):
            doing = re.sub(r"^\[\d{1,3}\] ?", "", cms.group("doing").strip())
            what += " of category %s%s" % (cms.group("category"), " while " + doing if doing else "")
        yield _ended(what)


def _ended(what: str, rank: Optional[str] = None) -> Said:
    return Said("process.signal", {"signal": "ABRT", "what": what, "spoken": True}, rank=number(rank))


FAMILY = Family(
    "fatal_reports",
    (
        b"--> FOAM FATAL ",
        b"Begin Fatal Exception",
        b"Source file: src/",
        b"::Assertion `",
        b"Abort::",
        b"Error::",
        b"Assert::",
        b"ERROR on proc ",
    ),
    read,
    re.compile(
        r"--> FOAM FATAL (?:IO )?ERROR ?:? {0,4}(?:\([\w.+-]{1,40}\))? {0,4}(?:\[\d{1,7}\] {0,4})?$"
        r"|^Source file: src/(?:gromacs|programs)/[\w./+-]{1,200} \(line \d{1,6}\)$"
        r"|Begin Fatal Exception(?!.{0,300} occurred while ?\[?\w)"
    ),
)
