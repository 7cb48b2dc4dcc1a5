"""Ways into a node beside hangtop's SSH: a local program that gives a shell's standard streams there."""
