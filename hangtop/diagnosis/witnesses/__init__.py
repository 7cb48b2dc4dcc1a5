"""What devices, logs and launchers say, put so that rules can ask for it."""
