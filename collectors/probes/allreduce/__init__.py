"""The collective probe: one process a node (or GPU), a barrier with a time-out, then figures, then bisection."""
