"""Flight recorder dumps: fetched from the nodes, and asked for where the job can be asked."""
