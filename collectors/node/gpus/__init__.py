"""NVIDIA and AMD GPUs, read through nvidia-smi, NVML and sysfs."""
