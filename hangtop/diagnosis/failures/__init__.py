"""Which ranks failed, in which order, and who left no word, as logs, launchers and kernels tell it."""
