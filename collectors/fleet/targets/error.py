"""What is said when it cannot be told which nodes are meant."""

from __future__ import annotations


class TargetError(Exception):
    """The nodes cannot be told; the text is one line and names the word, or the file and line, at fault."""
