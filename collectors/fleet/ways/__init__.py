"""Ways into a node beside SSH: a local program that gives a shell's standard streams there."""
