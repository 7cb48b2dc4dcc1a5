"""top, for distributed training jobs that hang."""

__version__ = "0.1.0"
