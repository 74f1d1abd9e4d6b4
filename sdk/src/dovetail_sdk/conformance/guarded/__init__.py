"""Random layers and small networks, run between inaccessible pages (`dovetail.runtime.Guard`)."""
