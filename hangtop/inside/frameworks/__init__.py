"""Callbacks of training frameworks that tell step and phase by themselves; each needs its framework when it is made."""
