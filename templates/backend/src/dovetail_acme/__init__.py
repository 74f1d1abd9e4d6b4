"""CpuAcme, a backend of dovetail."""
