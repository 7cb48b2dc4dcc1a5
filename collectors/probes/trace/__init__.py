"""Profiler traces of ranks: reduced where they lie, captured where the job can be asked for one."""
