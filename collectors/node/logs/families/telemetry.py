"""Words of what sends spans, traces and metrics to a collector: the program goes on whether they arrive or not."""

from __future__ import annotations

from collectors.node import late_re as re

LOST = (
    r"\b(?i:(?:fail|error|time|unable|could)\w{0,5}\b[^\r\n]{0,40}?\bexport(?:ing|ed|er)?"
    r" (?:\w{1,16} )?(?:spans?|traces?|metrics|telemetry|logs)\b"
    r"|while exporting (?:\w{1,16} )?(?:spans?|traces?|metrics|telemetry|logs)\b)"
)
"""Pattern of an exporter's failure."""
TRACKERS = re.compile(r"(?:wandb: (?:ERROR|WARNING)|COMET (?:ERROR|WARNING):|neptune:?(?:ERROR|WARNING)) ")
"""How trackers of experiments begin a line about what they could not send."""
