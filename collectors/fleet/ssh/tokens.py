"""Percent tokens, ``~`` and ``${VARIABLE}`` in the values of an ssh_config."""

from __future__ import annotations

import getpass
import hashlib
import os
import re
import socket
from dataclasses import dataclass
from pathlib import Path

from collectors.fleet.ssh.words import SshConfigError

_TOKEN = re.compile(r"%(.?)", re.DOTALL)
_VARIABLE = re.compile(r"\$\{([^}]*)\}")


@dataclass(frozen=True, slots=True)
class Tokens:
    """What the tokens stand for in the values of one host."""

    original: str
    """As the user named the host."""
    hostname: str
    port: str = "22"
    user: str = ""
    alias: str = ""
    jump: str = ""

    def expand(self, text: str, only: str = "") -> str:
        """Text with its percent tokens replaced; with ``only``, no others than those are known.

        Raises :class:`SshConfigError` for a token that there is not.
        """
        if "%" not in text:
            return text
        table = self._table()

        def replace(found: re.Match[str]) -> str:
            sign = found[1]
            if sign not in table or (only and sign not in only and sign != "%"):
                raise SshConfigError(f"ssh_config: %{sign} means nothing in {text!r}")
            return table[sign]

        return _TOKEN.sub(replace, text)

    def path(self, text: str) -> Path:
        """A path with ``~``, ``${VARIABLE}`` and tokens replaced. Raises :class:`SshConfigError`."""
        try:
            return Path(expand_variables(self.expand(text))).expanduser()
        except RuntimeError:
            raise SshConfigError(f"ssh_config: nobody's home is known for {text!r}") from None

    def _table(self) -> dict[str, str]:
        here = socket.gethostname()
        joined = f"{here}{self.hostname}{self.port}{self.user}{self.jump}"
        return {
            "%": "%",
            "h": self.hostname,
            "n": self.original,
            "p": self.port,
            "r": self.user,
            "k": self.alias or self.original,
            "j": self.jump,
            "u": getpass.getuser(),
            "i": str(os.getuid()),
            "d": str(Path("~").expanduser()),
            "l": here,
            "L": here.partition(".")[0],
            "C": hashlib.sha1(joined.encode("utf-8", "surrogateescape"), usedforsecurity=False).hexdigest(),
        }


def expand_variables(text: str) -> str:
    """Text with every ``${NAME}`` replaced from the environment. Raises :class:`SshConfigError` for one not set."""

    def replace(found: re.Match[str]) -> str:
        value = os.environ.get(found[1])
        if value is None:
            raise SshConfigError(f"ssh_config: the environment has no {found[1]} (in {text!r})")
        return value

    return _VARIABLE.sub(replace, text)
