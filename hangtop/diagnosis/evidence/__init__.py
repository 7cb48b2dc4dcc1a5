"""What devices, kernels, connections and logs say, put so that rules can ask for it."""
