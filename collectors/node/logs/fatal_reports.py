"""Fatal reports of simulation programs, whose first line tells that they end and the next ones why.

Formats: OpenFOAM's ``error`` and ``IOerror`` (in parallel each line has the rank in front: ``[3] --> FOAM FATAL
ERROR:``), CMSSW's ``Begin Fatal Exception``.
"""

from __future__ import annotations

import re
from typing import Iterator

from collectors.node.logs.said import Family, Said, number

_FOAM = re.compile(
    r"^(?:\[(?P<rank>\d{1,7})\] ?)?--> FOAM FATAL (?P<io>IO )?ERROR ?:? ?(?:\([\w.+-]{1,40}\))?"
    r"(?: ?\[\d{1,7}\])?(?P<what>[^\r\n]{0,600})"
)
_CMS = re.compile(
    r"^-{3,8} ?Begin Fatal Exception\b(?:[^\r\n]{0,120}?-{4,80})?"
    r"(?: ?An exception of category '(?P<category>[\w :]{1,80})' occurred while(?P<doing>[^\r\n]{0,300}))?"
)


def read(text: str) -> Iterator[Said]:
    """Events of one record."""
    foam = _FOAM.match(text)
    if foam is not None:
        what = foam.group("what").strip() or "a fatal error of OpenFOAM"
        yield Said("process.signal", {"signal": "ABRT", "what": what, "spoken": True}, rank=number(foam.group("rank")))
        return
    cms = _CMS.match(text)
    if cms is not None:
        what = "a fatal exception"
        if cms.group("category"):
            doing = re.sub(r"^\[\d{1,3}\] ?", "", cms.group("doing").strip())
            what += " of category %s%s" % (cms.group("category"), " while " + doing if doing else "")
        yield Said("process.signal", {"signal": "ABRT", "what": what, "spoken": True})


FAMILY = Family(
    "fatal_reports",
    (b"--> FOAM FATAL ", b"Begin Fatal Exception"),
    read,
    re.compile(
        r"--> FOAM FATAL (?:IO )?ERROR ?:? {0,4}(?:\([\w.+-]{1,40}\))? {0,4}(?:\[\d{1,7}\] {0,4})?$"
        r"|Begin Fatal Exception(?!.{0,300} occurred while ?\[?\w)"
    ),
)
