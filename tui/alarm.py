"""Bell and desktop notification when a job newly hangs or crashes."""

from __future__ import annotations

from collections.abc import Mapping

from hangtop.diagnosis.finding import Verdict
from hangtop.diagnosis.phrasing import outcome_words
from tui.looks.text import harmless

LOUD = frozenset({"hung", "crashed", "at_risk"})


class Alarm:
    """Remembers what was announced, so that one hang rings once."""

    def __init__(self) -> None:
        self._announced: tuple[str, ...] = ()

    def news(self, verdict: Verdict | None) -> str:
        """Text to announce; empty when there is nothing new. A healthy verdict between two hangs makes the next new."""
        if verdict is None or verdict.outcome not in LOUD:
            if verdict is not None and verdict.outcome in {"healthy", "starting"}:
                self._announced = ()
            return ""
        first = verdict.findings[0] if verdict.findings else None
        key = (verdict.outcome, first.kind if first else "", ",".join(map(str, first.ranks)) if first else "")
        if key == self._announced:
            return ""
        self._announced = key
        return harmless(f"{outcome_words(verdict.outcome)}: {verdict.summary}")


def notification(text: str, environ: Mapping[str, str]) -> str:
    """The escape sequence that makes a terminal show a desktop notification; unknown terminals ignore it.

    OSC 777 is what VTE, urxvt and foot know, OSC 9 the rest. tmux hands it through when ``allow-passthrough`` is on.
    """
    text = text.replace(";", ",")[:200]
    term = environ.get("TERM", "")
    if "VTE_VERSION" in environ or term.startswith(("rxvt", "foot")):
        sequence = f"\x1b]777;notify;hangtop;{text}\x07"
    else:
        sequence = f"\x1b]9;hangtop, {text}\x07"
    if environ.get("TMUX"):
        return f"\x1bPtmux;{sequence.replace(chr(27), chr(27) * 2)}\x1b\\"
    return sequence
