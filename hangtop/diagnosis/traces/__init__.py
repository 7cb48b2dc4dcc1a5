"""What profiler traces of ranks prove: too much exposed communication, a rank that comes late, waits for data."""

from __future__ import annotations

from hangtop.diagnosis.traces.findings import findings, lasting, outcome
from hangtop.diagnosis.traces.picture import Lateness, TracePicture, meetings, picture

__all__ = ["Lateness", "TracePicture", "findings", "lasting", "meetings", "outcome", "picture"]
