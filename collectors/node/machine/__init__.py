"""The node itself: kernel log, memory, CPU time, disks, software, and whether a job could start here."""
