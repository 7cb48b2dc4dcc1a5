"""Any command that gives a POSIX shell's standard streams on a node: ``docker exec -i %h sh``, ``tsh ssh root@%h sh``.

The text is split into words as a shell would split it, quotes and backslashes included, but nothing in it is expanded
and no shell runs it. In each word ``%h`` is the node's host, ``%n`` the node as it was named, ``%r`` its user, ``%p``
its port, and ``%%`` one percent sign, as in ssh_config.
"""

from __future__ import annotations

import re
import shlex

from collectors.fleet.targets.chosen import Target, TargetError
from collectors.fleet.transport import Refused

_ASKS = "it asks a question, and has no terminal here: run it by hand once, or log in first"
_ADVICE = (
    ("password", _ASKS),
    ("passphrase", _ASKS),
    ("(yes/no", _ASKS),
    ("executable file not found", "there is no such program at the far end: the container may have no sh"),
    ("sh: not found", "there is no sh at the far end"),
)
_TOKEN = re.compile(r"%(.?)")


class AnyCommand:
    """A command line with tokens in it."""

    opening = 20.0
    channels = 4
    at_once = 16

    def __init__(self, text: str) -> None:
        """Raises :class:`TargetError` for what is no such command."""
        try:
            self._words = shlex.split(text)
        except ValueError as error:
            raise TargetError(f"--via {text!r} cannot be split into words: {error}") from None
        tokens = {token for word in self._words for token in _TOKEN.findall(word)}
        if strange := sorted(tokens - set("hnrp%")):
            raise TargetError(f"--via {text!r}: %{strange[0]} means nothing: %h, %n, %r, %p and %% do")
        if not tokens & {"h", "n"}:
            raise TargetError(f"--via {text!r} has no %h, where the node's name belongs, and is no way by name")
        if "%" in self._words[0].replace("%%", ""):
            raise TargetError(f"--via {text!r}: its first word is the program, and cannot hold the node's name")
        self._tokens = tokens

    async def prepare(self, target: Target) -> None:
        """Do nothing."""

    def words(self, target: Target) -> list[str]:
        """The command for one node."""
        values = {
            "h": target.host, "n": target.name, "%": "%",
            "r": target.user or "", "p": "" if target.port is None else str(target.port),
        }  # fmt: skip
        for token, what in (("r", "user"), ("p", "port")):
            if token in self._tokens and not values[token]:
                raise Refused(f"{target.name}: --via wants a {what} (%{token}), and this node is named without one")
            if token not in self._tokens and "n" not in self._tokens and values[token]:
                raise Refused(f"{target.name}: is named with a {what}, and --via has no %{token} for it")
        return [_TOKEN.sub(lambda found: values[found[1]], word) for word in self._words]

    def terminal(self, target: Target) -> list[str]:
        """The same command."""
        return self.words(target)

    def advice(self, said: str) -> str:
        """What to do about the complaints that many programs have in common."""
        return next((advice for words, advice in _ADVICE if words in said.lower()), "")
