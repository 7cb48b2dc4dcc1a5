"""Redacts secrets in command lines, environments and texts: by the name in front of them, or by their own shape.

Command lines carry tokens as options (``--api-key X``), as dotted settings (``auth.password=X``), within JSON and in
scripts (``bash -c "export KEY=X"``). Each step reads a bounded part of the text once: arguments may be megabytes.
"""

from __future__ import annotations

import re
from typing import List, Match, Sequence

from collectors.samples import Value

REDACTED = "<redacted>"
EVENT_TEXT = 4000
"""Characters of an event's text at most."""
LOOKED_AT = 4
"""Characters of a command line that are examined per character that may be shown."""

_VARIABLE = re.compile(r"[A-Z][A-Z0-9]*_[A-Z0-9_]+$")
"""Name of an environment variable: its value comes next in ``-genv NAME X``, ``setdefault("NAME", "X")``."""

_SHAPES = re.compile(
    r"(?<![A-Za-z0-9])(?:hf_[A-Za-z0-9]{16}[A-Za-z0-9]*|gh[opsur]_[A-Za-z0-9]{16}[A-Za-z0-9]*|github_pat_\w{16}\w*"
    r"|glpat-[\w-]{12}[\w-]*|(?:AKIA|ASIA)[A-Z0-9]{12}[A-Z0-9]*|xox[abeoprs]-[\w-]{8}[\w-]*|xapp-[\w-]{8}[\w-]*"
    r"|sk-[A-Za-z0-9_-]{16}[\w-]*|[rs]k_(?:live|test)_[A-Za-z0-9]{8}\w*|AIza[\w-]{24}[\w-]*|npm_[A-Za-z0-9]{20}\w*"
    r"|pypi-[\w-]{16}[\w-]*|dop_v1_[a-f0-9]{16}\w*|nvapi-[\w-]{16}[\w-]*|wandb_v1_\w{16}\w*|eyJ[\w-]{8}[\w.-]*"
    r"|(?:(?<=[?&]sig=)|(?<=[-?&]Signature=)|(?<=-Security-Token=))[\w%+/=-]{16}[\w%+/=-]*)"
    r"|(?:(?<=hooks\.slack\.com/)|(?<=/api/webhooks/)|(?<=api\.telegram\.org/bot))[\w:/-]{16}[\w:/-]*"
)
"""Tokens with a characteristic prefix: Hugging Face, GitHub, GitLab, AWS, Slack, OpenAI and similar, Stripe, Google,
npm, PyPI, DigitalOcean, NVIDIA, W&B, JSON Web Tokens; signatures in URLs of S3, Google and Azure; webhook URLs (Slack,
Discord, Telegram). None contains a character that JSON would escape."""
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
"""Part before the ``=`` of a word that is a single setting; the rest of the word is its value."""
_VALUE = re.compile(
    r"(?:(?:authorization:\s{0,3})?(?:Bearer|Basic|Token)\s{1,3})?(?:(?P<open>'\"'\"'|\\{0,3}[\"'])(?:(?!(?P=open)).)*(?:(?P=open))?"
    r"|\[[^\]]*\]?|\{[^}]*\}?|\$\([^)]*\)?|[^\s\"'\\,;&|}\])]+)",
    re.DOTALL | re.IGNORECASE,
)
_GOES_ON = re.compile(
    r"\\\s|\$\([^)]*\)?|(?P<open>[\"'])(?=[^\s\"',;&|}\])])(?:(?!(?P=open)).)*(?P=open)|[^\s\"'\\,;&|}\])]+", re.DOTALL
)
"""A further part of a shell word, ``a\\ "b c"'d'``: a quote begins a part if it is closed and no blank follows it."""
_KEY = re.compile(r"[0-9a-f]{40}(?!\w)(?<![\w/].{40})")
"""A key without a prefix, as in ``wandb login``; commit hashes match too and are also redacted."""
_PASSWORD = re.compile(
    r"(?P<kept>(?<![\w.-])(?:curl\b[^|;&\n]{0,300}?\s(?:-u|--user)[\s=]?[^\s:]{1,100}:|sshpass\s-p\s?))\S{1,400}"
)
"""Passwords of curl and sshpass, which follow no telling name."""

_ENDINGS = (
    "token", "secret", "secrets", "password", "passwords", "passwd", "passphrase", "credential", "credentials", "key",
    "pwd",
)  # fmt: skip
"""Suffixes of the last word of a name."""
_WORDS = frozenset(
    (
        "auth", "authorization", "pass", "pat", "jwt", "bearer", "cookie", "pw", "sig", "signature", "creds", "sshpass",
        "bindpw", "rootpw", "userpw", "storepass", "keypass", "requirepass", "masterauth", "extraheader",
    )
)  # fmt: skip
"""Whole last words of a name; ``sig`` and ``signature`` sign URLs, which give access to anyone."""
_HARMLESS = ("monkey", "donkey", "turkey", "hockey", "jockey", "whiskey", "forward_pass", "backward_pass")
"""Suffixes of harmless names that the rules above would match."""
_PLURAL = r"(?:api|auth|access|secret|private|bearer|refresh)[_-]?(?:keys|tokens)"
_SEVERAL = re.compile(_PLURAL + "$")
"""Plurals; ``keys`` and ``tokens`` without such a prefix are rarely secrets."""
_UNDER = re.compile(r"(?:^|\.)(?:secrets?|passwords?|credentials?)\.")
"""Part of a dotted name; all settings below it are secret."""
_LAST = re.compile(r"[^._:/-]*$")
_HINTS = (
    "key", "token", "pass", "secret", "auth", "credential", "sig", "pat", "pw", "cookie", "jwt", "bearer", "creds",
    "extraheader",
)  # fmt: skip
_TELLING = re.compile("(?:%s|%s)(?![a-z0-9_])" % ("|".join(sorted([*_ENDINGS, *_WORDS])), _PLURAL))
"""In lower case, a part of each name that sounds secret, and the end of it: few lines of a log have one."""
_BEGIN, _END, _KEY_LINES = "-----BEGIN", "-----END", 200
"""First and last line of a private key, and its lines at most."""


def sounds_secret(name: str) -> bool:
    """Whether the value of an option or setting with this name should be redacted."""
    whole = name[-100:].rstrip("\"'\\").lower()
    if whole.replace("-", "_").endswith(_HARMLESS):
        return False
    last = _LAST.search(whole)
    word = last.group() if last is not None else ""
    if word.endswith(_ENDINGS) or word.rpartition("_")[2] in _WORDS:
        return True
    return _SEVERAL.search(whole) is not None or _UNDER.search(whole) is not None


def shapes(text: str) -> str:
    """Redact tokens of a known shape and private keys, and remove user names and passwords from URLs."""
    if "://" in text:
        text = _USER_INFO.sub(r"\1", text)
    if "PRIVATE KEY" in text:
        text = _KEY_BLOCK.sub(REDACTED, text)
    # Searching for the literal prefixes costs a fiftieth of the full pattern, and few texts contain any.
    return _SHAPES.sub(REDACTED, text) if any(map(text.__contains__, _BEGINNINGS)) else text


def settings(text: str) -> str:
    """Redact values that follow a name that sounds secret: ``a.token=X``, ``--key X``."""
    lower = text.lower()
    if not any(map(lower.__contains__, _HINTS)) or _TELLING.search(lower) is None:
        return text
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
    """End of the value after a name that sounds secret; its start (the match's end) if there is no such value."""
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
    """Redact secrets in a text that may contain a command line or settings."""
    text = _KEY.sub(REDACTED, text)
    if "curl" in text or "sshpass" in text:
        text = _PASSWORD.sub(r"\g<kept>" + REDACTED, text)
    return shapes(settings(text))


class LogRedactor:
    """Redacts the lines of one log, in order: only the first and last line of a private key tell what it is."""

    def __init__(self) -> None:
        self._key_lines = 0
        """Lines that may still belong to a private key."""

    def shown(self, lines: Sequence[str]) -> List[str]:
        """The lines, redacted; a key that ends in them but did not begin in them began before."""
        first = next((line for line in lines if "PRIVATE KEY-----" in line), "")
        if _END in first and _BEGIN not in first:
            self._key_lines = _KEY_LINES
        shown: List[str] = []
        for line in lines:
            if self._key_lines:
                self._key_lines = 0 if _END in line else self._key_lines - 1
                shown.append(REDACTED)
                continue
            if "PRIVATE KEY-----" in line and _END not in line:
                self._key_lines = _KEY_LINES
            shown.append(within(line))
        return shown


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
    """Redact a log event's text, then cut it: a token cut in half would not be recognized."""
    return within(text[: 4 * EVENT_TEXT])[:EVENT_TEXT]


def sendable(value: Value) -> Value:
    """Redact and bound the texts in an event's value, so that it may leave the node."""
    if isinstance(value, list):
        return [event_text(item) if isinstance(item, str) else item for item in value]
    return event_text(value) if isinstance(value, str) else value
