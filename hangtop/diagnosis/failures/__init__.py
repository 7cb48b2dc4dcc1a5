"""Which ranks failed, in which order, and which left no message, by logs, launchers and kernels."""
