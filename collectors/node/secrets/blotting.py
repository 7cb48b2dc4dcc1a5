"""Blots out what is a secret in command lines and texts: by the name in front of it, its own shape, or its program.

Command lines carry tokens as options (``--api-key X``), as dotted settings (``auth.password=X``), within JSON and in
scripts (``bash -c "export KEY=X"``). Each step looks at a bounded part of the text once: arguments may be megabytes.
"""

from __future__ import annotations

import re
from typing import List, Match, Sequence

from collectors.node.secrets.commands import Command, program, secrets_in
from collectors.node.secrets.names import sounds_secret

BLOTTED = "<redacted>"
LOOKED_AT = 4
"""Characters of a command line that are looked at, for each that may be shown."""
INNERMOST = 4
"""Programs whose words are followed at once: ``kubectl exec pod -- mysql …`` runs one within another."""

_VARIABLE = re.compile(r"[A-Z][A-Z0-9]*_[A-Z0-9_]+$")
"""Name of a variable of the environment: its value comes next in ``-genv NAME X``, ``setdefault("NAME", "X")``."""

_SHAPES = re.compile(
    r"(?<![A-Za-z0-9])(?:hf_[A-Za-z0-9]{16}[A-Za-z0-9]*|gh[opsur]_[A-Za-z0-9]{16}[A-Za-z0-9]*|github_pat_\w{16}\w*"
    r"|glpat-[\w-]{12}[\w-]*|(?:AKIA|ASIA)[A-Z0-9]{12}[A-Z0-9]*|xox[abeoprs]-[\w-]{8}[\w-]*|xapp-[\w-]{8}[\w-]*"
    r"|sk-[A-Za-z0-9_-]{16}[\w-]*|[rs]k_(?:live|test)_[A-Za-z0-9]{8}\w*|AIza[\w-]{24}[\w-]*|npm_[A-Za-z0-9]{20}\w*"
    r"|pypi-[\w-]{16}[\w-]*|dop_v1_[a-f0-9]{16}\w*|nvapi-[\w-]{16}[\w-]*|wandb_v1_\w{16}\w*|eyJ[\w-]{8}[\w.-]*"
    r"|(?:(?<=[?&]sig=)|(?<=[-?&]Signature=)|(?<=-Security-Token=))[\w%+/=-]{16}[\w%+/=-]*)"
    r"|(?:(?<=hooks\.slack\.com/)|(?<=/api/webhooks/)|(?<=api\.telegram\.org/bot))[\w:/-]{16}[\w:/-]*"
)
"""Tokens whose beginning says what they are: Hugging Face, GitHub, GitLab, AWS, Slack, OpenAI and its like, Stripe,
Google, npm, PyPI, DigitalOcean, NVIDIA, W&B, JSON Web Tokens; what signs an address of S3, Google or Azure; addresses
to which whoever knows them may write (Slack, Discord, Telegram). None contains a character that JSON would escape."""
_BEGINNINGS = (
    "hf_", "ghp_", "gho_", "ghs_", "ghu_", "ghr_", "github_pat_", "glpat-", "AKIA", "ASIA", "xox", "xapp-", "sk-",
    "k_live_", "k_test_", "AIza", "npm_", "pypi-", "dop_v1_", "nvapi-", "wandb_v1_", "eyJ", "sig=", "Signature=",
    "Security-Token=", "hooks.slack.com/", "/api/webhooks/", "api.telegram.org/bot",
)  # fmt: skip
_KEY_BLOCK = re.compile(r'-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?:[^"]*?-----END [A-Z ]{0,40}-----|[^"]*)')
_USER_INFO = re.compile(r"(://)[^/\s?#\"'\\]{1,400}@")
_NAMED = re.compile(
    r"(?<![\w.-])(?P<dash>--?)?(?P<name>[A-Za-z_][\w.-]{0,100})"
    r"(?P<sign>[\\\"']{0,4}\]?\s{0,3}[:=]\s{0,3}|[\\\"']{1,4}\s{0,3},\s{0,3}(?=\\{0,3}[\"'])|\s{1,3}(?![-\s]))?"
)
_NAME = re.compile(r"[\w.:/-]{1,200}$")
"""In front of the ``=`` of a word that is one setting: all behind it is its value."""
_VALUE = re.compile(
    r"(?:(?:authorization:\s{0,3})?(?:Bearer|Basic|Token)\s{1,3})?(?:(?P<open>'\"'\"'|\\{0,3}[\"'])(?:(?!(?P=open)).)*(?:(?P=open))?"
    r"|\[[^\]]*\]?|\{[^}]*\}?|\$\([^)]*\)?|[^\s\"'\\,;&|}\])]+)",
    re.DOTALL | re.IGNORECASE,
)
_GOES_ON = re.compile(
    r"\\\s|\$\([^)]*\)?|(?P<open>[\"'])(?=[^\s\"',;&|}\])])(?:(?!(?P=open)).)*(?P=open)|[^\s\"'\\,;&|}\])]+", re.DOTALL
)
"""A further part of a word of a shell, ``a\\ "b c"'d'``: a quote begins one if it is closed and no blank follows."""
_CALLED = re.compile(r"(?P<call>\b(?:login|authenticate)\(\s{0,3}(?:'\"'\"'|\\{0,3}[\"']))[^\"'\\\s]{8,400}")
"""A token that Python gives to a library without a name: ``login("X")``."""


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
        end = _end_of_value(text, found)
        if end == found.end():
            after = found.end("name")
            said.append(text[at:after])
            at = after
            continue
        said += [text[at : found.end()], BLOTTED]
        at = end


def _end_of_value(text: str, found: Match[str]) -> int:
    """Where the value ends that stands behind a name that sounds secret; where it would begin if there is none."""
    sign, name, at = found.group("sign"), found.group("name"), found.end()
    if sign is None or not sounds_secret(name):
        return at
    if (sign.isspace() or "," in sign) and found.group("dash") is None and _VARIABLE.match(name) is None:
        return at
    part = _VALUE.match(text, at)
    while part is not None:
        at = part.end()
        part = _GOES_ON.match(text, at)
    return at


def within(text: str) -> str:
    """A text that may hold a command line or settings, its secrets blotted out."""
    return shapes(settings(_CALLED.sub(r"\g<call>" + BLOTTED, commands(text))))


def commands(text: str) -> str:
    """The text without what is secret in the commands of well-known programs that it holds."""
    said: List[str] = []
    at = 0
    for start, end in secrets_in(text):
        said += [text[at:start], BLOTTED]
        at = end
    return "".join(said) + text[at:]


def command(words: Sequence[str], limit: int) -> str:
    """A command line as one text of at most ``limit`` characters, its secrets blotted out."""
    said: List[str] = []
    left = LOOKED_AT * limit
    blot_next = False
    followed: List[Command] = []
    for word in words:
        if left <= 0:
            break
        shown, left = word[:left], left - len(word) - 1
        kept = [kept for kept in [of.keeps(shown) for of in followed] if kept is not None]
        name, equals, _ = shown.partition("=")
        option = (shown.startswith("-") or _VARIABLE.match(name)) and not equals and sounds_secret(name)
        if blot_next and not shown.startswith("-"):
            said.append(BLOTTED)
        elif kept:
            said.append(shown[: min(kept)] + BLOTTED)
        elif equals and _NAME.match(name) and sounds_secret(name):
            said.append(name + "=" + BLOTTED)
        else:
            said.append(within(shown))
        blot_next = bool(option)
        runs = program(shown)
        if runs:
            followed = [*followed[1 - INNERMOST :], Command(runs)]
    return " ".join(said)[:limit]
