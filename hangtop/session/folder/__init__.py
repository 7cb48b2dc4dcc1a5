"""A session made from a folder of logs, dumps and tool outputs, after the fact."""

from hangtop.session.folder.documents import Recognised
from hangtop.session.folder.session import FilesSession, files_session

__all__ = ["FilesSession", "Recognised", "files_session"]
