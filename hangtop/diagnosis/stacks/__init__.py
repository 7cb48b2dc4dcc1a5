"""Stacks: the meaning of frames, the activity of a rank, and the merged stacks of many ranks."""
