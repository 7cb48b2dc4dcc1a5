"""A session made from a folder of logs, dumps and tool outputs, after the fact."""
