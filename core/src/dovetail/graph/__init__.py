"""A network as data: tensors, descriptors, layers joined by slots.

It knows no kind of layer and no backend.
"""
