"""Records of several lines: tracebacks, stacks, reports."""
