"""What must not leave a node: secrets in commands, environments and lines of logs."""
