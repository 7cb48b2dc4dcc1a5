"""How each kind of sample changes the job's state: one function a kind, one file a family, found by class."""
