"""Words at the level for errors that tell of none: where a line was written, and work that begins or is done."""

from __future__ import annotations

from collectors.node import late_re as re

PLACE = re.compile(
    r"^(?:\[?[\w./-]{1,120}\.\w{1,4}:\d{1,6}\]?|\[[\w.:/ -]{1,60}\]|[\w.]{1,80}:(?=\s)|(?:__main__|root):)[ :-]{0,4}"
)
"""File and line of a logger's call, or the logger's name."""
WORK = re.compile(
    r"(?i)(?:start(?:ing|ed)|begin(?:ning)?|load(?:ing|ed)|running|finish(?:ing|ed)|done|sav(?:ing|ed)"
    r"|complet(?:ing|ed)|using|initiali[sz](?:ing|ed)|evaluating|training|testing|fine-?tuning|creat(?:ing|ed))\b"
    r"(?![^\r\n]{0,300}\b(?:fail|err|abort|unable|can ?no|can't|could|crash|kill|died|dead|invalid|missing|not\b|no\b"
    r"|lost|out of|time|exce|stop|terminat|refus|denied|corrupt|unexpect|nan\b|inf\b|diverg|in use|conflict|mismatch"
    r"|incompat|unknown|unsupport|wrong|bad\b))"
)
"""A program that tells at that level what it does, and nothing that went wrong."""
