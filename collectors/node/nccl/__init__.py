"""Records of collectives that NCCL and torch keep on a node: flight recorder, RAS."""
