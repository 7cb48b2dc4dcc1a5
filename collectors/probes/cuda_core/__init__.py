"""CUDA's user-triggered core dump, by consent: which kernel a GPU is in."""
