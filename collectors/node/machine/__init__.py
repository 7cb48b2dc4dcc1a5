"""The node itself: kernel log, memory, load, disks, software, and the preflight checks."""
