"""Which names of options, settings and headers sound as if a secret stood behind them."""

from __future__ import annotations

import re

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
