"""Lines of a container's log without what its runtime writes around each: the time, the stream, whether it is whole."""

from __future__ import annotations

import json
import re

_KUBELETS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d) (?:stdout|stderr) [FP] ")
"""The kubelet's, containerd's and podman's."""
_DOCKERS = '{"log":"'


def printed(text: str) -> str:
    """What the program itself printed; any other line as it is."""
    if text[:1] == "2":
        found = _KUBELETS.match(text)
        return text if found is None else text[found.end() :]
    if not text.startswith(_DOCKERS):
        return text
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):  # cut off, or no record of docker's
        return text
    said = record.get("log") if isinstance(record, dict) and "stream" in record else None
    return said.rstrip("\r\n") if isinstance(said, str) else text
