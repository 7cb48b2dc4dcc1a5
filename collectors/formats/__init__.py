"""Readers of what other tools write: flight recorder dumps, NCCL RAS reports, traces, stacks."""


class BadFormat(ValueError):
    """The bytes are not what the reader is for; the text says what is wrong with them."""
