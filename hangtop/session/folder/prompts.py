"""What somebody copied from a terminal: the command above a tool's output, and the host that the prompt names."""

from __future__ import annotations

import re
from typing import NamedTuple

_PROMPT = re.compile(
    r"^(?:```\w{0,12}|\s{0,4}(?:\([\w.-]{1,40}\) ?)?"
    r"(?:\[?(?P<user>[\w.-]{1,40})@(?P<host>[\w.-]{1,80})[: ]?[^\r\n$#>%]{0,80}\]?\s?)?"
    r"[$#>%] {0,2}\S[^\r\n]{0,200})\s{0,4}$"
)
_REMARK = re.compile(r"#[^\r\n:]{0,80}: ")
"""What a tool prints behind a sharp of its own."""
FIRST = 4
"""Lines at the beginning that may be prompts, marks of code, or empty."""


class Copied(NamedTuple):
    """A text without its prompts; ``host`` is empty where no prompt names one."""

    text: str
    host: str


def copied(text: str) -> Copied:
    """The text behind the prompts, marks of code and empty lines that it begins with."""
    host = ""
    for _ in range(FIRST):
        line, end, rest = text.partition("\n")
        prompt = None if _REMARK.match(line) else _PROMPT.match(line)
        if not end or (line.strip() and prompt is None):
            break
        host = host or (prompt.group("host") or "" if prompt is not None else "")
        text = rest
    return Copied(text, host)
