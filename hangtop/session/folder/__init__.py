"""A folder of logs, dumps and tool outputs as a session: read, recognised, put together, after the fact."""

from hangtop.session.folder.documents import Recognised
from hangtop.session.folder.session import FilesSession, files_session

__all__ = ["FilesSession", "Recognised", "files_session"]
