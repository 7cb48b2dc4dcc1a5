"""Ways into a node other than hangtop's SSH: a local program that leads to a shell there (kubectl exec, srun, sh)."""
