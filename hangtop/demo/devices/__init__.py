"""Simulated devices: executables that stand for nvidia-smi and perfquery on a node without any device.

Their numbers follow what the ranks say of themselves (see :mod:`hangtop.demo.job.device`), and faults can be planted in
them. They run without site-packages, so everything here imports the standard library alone.
"""
