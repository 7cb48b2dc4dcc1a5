"""Readers of other tools' output: flight recorder dumps, NCCL RAS reports, traces, stacks."""


class BadFormat(ValueError):
    """The data are not in the reader's format; the text gives the reason."""
