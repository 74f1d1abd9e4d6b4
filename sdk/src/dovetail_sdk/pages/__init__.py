"""Pages with a picture of a network: one file each, which asks nothing of a network or a server."""

from .page import Edge, Metric, Node, Page, write_page

__all__ = ["Edge", "Metric", "Node", "Page", "write_page"]
