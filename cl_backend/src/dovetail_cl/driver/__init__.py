"""The OpenCL driver, found at run time; nothing here knows a kind of layer."""
