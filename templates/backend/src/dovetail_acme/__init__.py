"""CpuAcme, a backend of dovetail. Imported when it is first used, never to list backends."""

from dovetail import Backend

from . import pooling


class AcmeBackend(Backend):
    """A kernel for each claimed kind.

    What can be overridden: see dovetail.contract.interfaces.
    """

    kernels = {"dovetail.Pooling2d": pooling.create}
