"""What the workloads of all families share: parameters, packed weights, parallel loops."""
