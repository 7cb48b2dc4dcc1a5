"""Blots out what is a secret in command lines and texts: by the name in front of it, or by its own shape.

Command lines carry tokens as options (``--api-key X``), as dotted settings (``auth.password=X``), within JSON and in
scripts (``bash -c "export KEY=X"``). Each step looks at a bounded part of the text once: arguments may be megabytes.
"""

from __future__ import annotations

import re
from typing import List, Sequence

BLOTTED = "<redacted>"
LOOKED_AT = 4
"""Characters of a command line that are looked at, for each that may be shown."""

_ENDINGS = (
    "token", "secret", "password", "passwd", "passphrase", "credential", "credentials", "key", "pwd",
)  # fmt: skip
"""Ends of the last word of a name."""
_WORDS = frozenset(("auth", "authorization", "pass", "pat", "jwt", "bearer", "cookie"))
"""Whole last words of a name."""
_LAST = re.compile(r"[^._:/-]*$")

_SHAPES = re.compile(
    r"(?<![A-Za-z0-9])(?:hf_[A-Za-z0-9]{16}[A-Za-z0-9]*|gh[opsur]_[A-Za-z0-9]{16}[A-Za-z0-9]*|github_pat_\w{16}\w*"
    r"|glpat-[\w-]{12}[\w-]*|(?:AKIA|ASIA)[A-Z0-9]{12}[A-Z0-9]*|xox[abeoprs]-[\w-]{8}[\w-]*|xapp-[\w-]{8}[\w-]*"
    r"|sk-[A-Za-z0-9_-]{16}[\w-]*|[rs]k_(?:live|test)_[A-Za-z0-9]{8}\w*|AIza[\w-]{24}[\w-]*|npm_[A-Za-z0-9]{20}\w*"
    r"|pypi-[\w-]{16}[\w-]*|dop_v1_[a-f0-9]{16}\w*|nvapi-[\w-]{16}[\w-]*|eyJ[\w-]{8}[\w.-]*)"
)
"""Tokens whose beginning says what they are: Hugging Face, GitHub, GitLab, AWS, Slack, OpenAI and its like, Stripe,
Google, npm, PyPI, DigitalOcean, NVIDIA, JSON Web Tokens. None contains a character that JSON would escape."""
_BEGINNINGS = (
    "hf_", "ghp_", "gho_", "ghs_", "ghu_", "ghr_", "github_pat_", "glpat-", "AKIA", "ASIA", "xox", "xapp-", "sk-",
    "k_live_", "k_test_", "AIza", "npm_", "pypi-", "dop_v1_", "nvapi-", "eyJ",
)  # fmt: skip
_KEY_BLOCK = re.compile(r'-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?:[^"]*?-----END [A-Z ]{0,40}-----|[^"]*)')
_USER_INFO = re.compile(r"(://)[^/\s?#\"'\\]{1,400}@")
_NAMED = re.compile(
    r"(?<![\w.-])(?P<dash>--?)?(?P<name>[A-Za-z_][\w.-]{0,100})"
    r"(?P<sign>[\\\"']{0,4}\s{0,3}[:=]\s{0,3}|\s{1,3}(?![-\s]))?"
)
_NAME = re.compile(r"[\w.:/-]{1,200}$")
"""In front of the ``=`` of a word that is one setting: all behind it is its value."""
_VALUE = re.compile(
    r"(?:(?:Bearer|Basic|Token)\s{1,3})?(?:(?P<open>\\{0,3}[\"'])(?:(?!(?P=open)).)*(?:(?P=open))?|[^\s\"'\\,;&|}\])]+)",
    re.DOTALL | re.IGNORECASE,
)


def sounds_secret(name: str) -> bool:
    """Whether the value of an option or a setting of this name should not be shown."""
    last = _LAST.search(name[-100:].rstrip("\"'\\"))
    word = last.group().lower() if last is not None else ""
    return word.endswith(_ENDINGS) or word.rpartition("_")[2] in _WORDS


def shapes(text: str) -> str:
    """The text without tokens of a known shape, private keys, and names and passwords in addresses."""
    if "://" in text:
        text = _USER_INFO.sub(r"\1", text)
    if "PRIVATE KEY" in text:
        text = _KEY_BLOCK.sub(BLOTTED, text)
    # A dozen searches for literals cost a fiftieth of one for all shapes, and nearly no text has any.
    return _SHAPES.sub(BLOTTED, text) if any(map(text.__contains__, _BEGINNINGS)) else text


def settings(text: str) -> str:
    """The text without values that stand behind a name that sounds secret: ``a.token=X``, ``--key X``."""
    said: List[str] = []
    at = 0
    while True:
        found = _NAMED.search(text, at)
        if found is None:
            said.append(text[at:])
            return "".join(said)
        sign = found.group("sign")
        named = sign is not None and (found.group("dash") is not None or not sign.isspace())
        value = _VALUE.match(text, found.end()) if named and sounds_secret(found.group("name")) else None
        if value is None:
            after = found.end("name")
            said.append(text[at:after])
            at = after
            continue
        said += [text[at : found.end()], BLOTTED]
        at = value.end()


def command(words: Sequence[str], limit: int) -> str:
    """A command line as one text of at most ``limit`` characters, its secrets blotted out."""
    said: List[str] = []
    left = LOOKED_AT * limit
    blot_next = False
    for word in words:
        if left <= 0:
            break
        shown, left = word[:left], left - len(word) - 1
        name, equals, _ = shown.partition("=")
        option = shown.startswith("-") and not equals and sounds_secret(name)
        if blot_next and not shown.startswith("-"):
            said.append(BLOTTED)
        elif equals and _NAME.match(name) and sounds_secret(name):
            said.append(name + "=" + BLOTTED)
        else:
            said.append(shapes(settings(shown)))
        blot_next = option
    return " ".join(said)[:limit]
