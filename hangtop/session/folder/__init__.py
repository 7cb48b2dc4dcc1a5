"""A folder of logs, dumps and tool outputs as a job: read, recognised, put together, after the fact."""

from hangtop.session.folder.contents import Contents, Recognised
from hangtop.session.folder.job import job_of
from hangtop.session.folder.reading import read

__all__ = ["Contents", "Recognised", "job_of", "read"]
