"""What NCCL and torch keep about collectives on a node: settings, flight recorder, RAS."""
