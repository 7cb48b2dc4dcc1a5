"""GPUs of NVIDIA and AMD: by tools, by NVML, by sysfs."""
