"""Simulated devices: executables in place of nvidia-smi and perfquery on a node without devices.

Their figures follow the records of the ranks (:mod:`hangtop.demo.job.device`), and can show planted faults. The
executables run without site-packages, so all modules here import only the standard library.
"""
