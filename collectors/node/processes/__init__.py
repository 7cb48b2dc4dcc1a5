"""One process, as the kernel shows it: its state, environment, files, namespaces and connections."""
