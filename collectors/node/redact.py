"""Redacts secrets in command lines, environments and texts: by the name in front of them, or by their own shape.

Command lines carry tokens as options (``--api-key X``), as dotted settings (``auth.password=X``), within JSON and in
scripts (``bash -c "export KEY=X"``). Each step looks at a bounded part of the text once: arguments may be megabytes.
"""

from __future__ import annotations

import re
from typing import List, Match, Sequence

from collectors.samples import Value

REDACTED = "<redacted>"
EVENT_TEXT = 4000
"""Characters of the text of an event."""
LOOKED_AT = 4
"""Characters of a command line that are looked at, for each that may be shown."""

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
_KEY = re.compile(r"(?<![\w/])[0-9a-f]{40}(?!\w)")
"""A key without a beginning of its own, as ``wandb login`` takes it, in a command line; that of a commit goes too."""
_PASSWORD = re.compile(
    r"(?P<kept>(?<![\w.-])(?:curl\b[^|;&\n]{0,300}?\s(?:-u|--user)[\s=]?[^\s:]{1,100}:|sshpass\s-p\s?))\S{1,400}"
)
"""Passwords of curl and sshpass, which no name announces."""

_ENDINGS = (
    "token", "secret", "secrets", "password", "passwords", "passwd", "passphrase", "credential", "credentials", "key",
    "pwd",
)  # fmt: skip
"""Ends of the last word of a name."""
_WORDS = frozenset(
    (
        "auth", "authorization", "pass", "pat", "jwt", "bearer", "cookie", "pw", "sig", "signature", "creds", "sshpass",
        "bindpw", "rootpw", "userpw", "storepass", "keypass", "requirepass", "masterauth", "extraheader",
    )
)  # fmt: skip
"""Whole last words of a name; ``sig`` and ``signature`` sign addresses, which whoever has them may use."""
_HARMLESS = ("monkey", "donkey", "turkey", "hockey", "jockey", "whiskey", "forward_pass", "backward_pass")
"""Ends of names that only look like those."""
_SEVERAL = re.compile(r"(?:api|auth|access|secret|private|bearer|refresh)[_-]?(?:keys|tokens)$")
"""Several secrets; keys and tokens alone are seldom any."""
_UNDER = re.compile(r"(?:^|\.)(?:secrets?|passwords?|credentials?)\.")
"""Part of a dotted name under which all is secret."""
_LAST = re.compile(r"[^._:/-]*$")


def sounds_secret(name: str) -> bool:
    """Whether the value of an option or a setting of this name should not be shown."""
    whole = name[-100:].rstrip("\"'\\").lower()
    if whole.replace("-", "_").endswith(_HARMLESS):
        return False
    last = _LAST.search(whole)
    word = last.group() if last is not None else ""
    if word.endswith(_ENDINGS) or word.rpartition("_")[2] in _WORDS:
        return True
    return _SEVERAL.search(whole) is not None or _UNDER.search(whole) is not None


def shapes(text: str) -> str:
    """The text without tokens of a known shape, private keys, and names and passwords in addresses."""
    if "://" in text:
        text = _USER_INFO.sub(r"\1", text)
    if "PRIVATE KEY" in text:
        text = _KEY_BLOCK.sub(REDACTED, text)
    # A dozen searches for literals cost a fiftieth of one for all shapes, and nearly no text has any.
    return _SHAPES.sub(REDACTED, text) if any(map(text.__contains__, _BEGINNINGS)) else text


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
        said += [text[at : found.end()], REDACTED]
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
    """A text that may hold a command line or settings, its secrets redacted."""
    return shapes(settings(_PASSWORD.sub(r"\g<kept>" + REDACTED, _KEY.sub(REDACTED, text))))


def command(words: Sequence[str], limit: int = 2048) -> str:
    """A command line as one text of at most ``limit`` characters, its secrets redacted."""
    shown: List[str] = []
    left = LOOKED_AT * limit
    redact_next = False
    for word in words:
        if left <= 0:
            break
        part, left = word[:left], left - len(word) - 1
        name, equals, _ = part.partition("=")
        if redact_next and not part.startswith("-"):
            shown.append(REDACTED)
        elif equals and _NAME.match(name) and sounds_secret(name):
            shown.append(name + "=" + REDACTED)
        else:
            shown.append(within(part))
        option = (part.startswith("-") or _VARIABLE.match(name)) and not equals
        redact_next = bool(option) and sounds_secret(name)
    return _PASSWORD.sub(r"\g<kept>" + REDACTED, " ".join(shown))[:limit]


def event_text(text: str) -> str:
    """A text as an event of a log carries it; redacted before it is cut, because half a token has no shape."""
    return shapes(text[: 4 * EVENT_TEXT])[:EVENT_TEXT]


def sendable(value: Value) -> Value:
    """A value of an event as it may leave the node: its texts without secrets, and bounded."""
    if isinstance(value, list):
        return [event_text(item) if isinstance(item, str) else item for item in value]
    return event_text(value) if isinstance(value, str) else value
