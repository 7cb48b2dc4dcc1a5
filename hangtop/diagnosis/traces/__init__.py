"""What profiler traces of ranks prove: too much exposed communication, a rank that comes late, waits for data."""

from __future__ import annotations

from hangtop.diagnosis.traces.findings import findings, outcome
from hangtop.diagnosis.traces.meetings import Meeting, meetings
from hangtop.diagnosis.traces.picture import Lateness, Picture, picture

__all__ = ["Lateness", "Meeting", "Picture", "findings", "meetings", "outcome", "picture"]
