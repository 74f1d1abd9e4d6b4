"""Workloads: how a layer is set up at load time, and run over the kernels. `registry` says which module makes which."""
