"""Ways into a node other than hangtop's SSH: a local program that connects to a shell there (kubectl exec, srun)."""
