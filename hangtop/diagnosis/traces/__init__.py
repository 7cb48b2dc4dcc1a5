"""What profiler traces of ranks prove: too much exposed communication, a rank that comes late, waits for data."""

from __future__ import annotations

from hangtop.diagnosis.traces.findings import findings, outcome
from hangtop.diagnosis.traces.meetings import TracedCollective, meetings
from hangtop.diagnosis.traces.picture import Lateness, TracePicture, picture

__all__ = ["Lateness", "TracePicture", "TracedCollective", "findings", "meetings", "outcome", "picture"]
