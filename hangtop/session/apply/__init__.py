"""How samples change the state of a job: one function per kind of sample; the table is in :mod:`..intake`."""
