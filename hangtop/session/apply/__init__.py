"""How samples change the state of a job: one function a kind, one file a family; the table is in the intake."""
