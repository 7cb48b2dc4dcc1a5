"""Collectives put side by side: what each rank launched, by flight recorder, watchdog, NCCL log or NCCL RAS."""
