"""Lines of an ssh_config, split as OpenSSH splits them."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from collectors.fleet.transport import Refused

_KEYWORD = re.compile(r"\s*([A-Za-z0-9]+)(?:\s*=\s*|\s+|\Z)")
_WORD = re.compile(r"""\s*((?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\\.|[^\s"'\\])+)""")
_PIECE = re.compile(r""""((?:\\.|[^"\\])*)"|'((?:\\.|[^'\\])*)'|\\(["'\\ ])|(.)""", re.DOTALL)
_ESCAPED = re.compile(r"""\\(["'\\])""")


class SshConfigError(Refused):
    """The ssh_config cannot be used; the text names file and line."""


class SaidAt(NamedTuple):
    """Where something was said."""

    file: Path
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def split_words(line: str, place: SaidAt, verbatim: Collection[str]) -> tuple[str, tuple[str, ...]]:
    """Keyword in lower case and its words, quotes taken off; an empty keyword for a line that says nothing.

    The rest of the line is one word for a keyword in ``verbatim``. Raises :class:`SshConfigError`.
    """
    if not line.strip() or line.lstrip().startswith("#"):
        return "", ()
    found = _KEYWORD.match(line)
    if found is None:
        raise SshConfigError(f"{place}: {line.strip()[:60]!r} does not begin with a keyword")
    keyword, rest = found[1].lower(), line[found.end() :].strip()
    if keyword in verbatim:
        return keyword, (rest,) if rest else ()
    words = []
    position = 0
    while position < len(rest):
        word = _WORD.match(rest, position)
        if word is None:
            raise SshConfigError(f"{place}: a quote is not closed")
        if word[1].startswith("#"):
            break
        words.append("".join(_unquote(piece) for piece in _PIECE.finditer(word[1])))
        position = word.end()
    return keyword, tuple(words)


def _unquote(piece: re.Match[str]) -> str:
    double, single, escaped, plain = piece.groups()
    if plain is not None:
        return str(plain)
    if escaped is not None:
        return str(escaped)
    return _ESCAPED.sub(r"\1", double if double is not None else single)
