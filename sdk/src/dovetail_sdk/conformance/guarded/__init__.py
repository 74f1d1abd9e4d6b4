"""Random layers and small networks, run between inaccessible pages: see `dovetail.runtime.Guard`."""
