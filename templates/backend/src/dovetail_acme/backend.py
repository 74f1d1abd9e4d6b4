"""The entry point: which kernel is in charge of a layer. Imported when CpuAcme is first used, never to list backends."""

from dovetail import BackendId, IBackend, IWorkloadFactory

from . import pooling

# The module in charge of each kind of layer. A layer's kind is the name of its descriptor's class: see dovetail.layers.
KERNELS = {"dovetail.Pooling2d": pooling}


class AcmeFactory(IWorkloadFactory):
    """Turns layers into workloads. One for each loaded network: what a network's kernels share can live here."""

    def create_workload(self, layer):
        """Return the workload of a layer that the manifest claims."""
        return KERNELS[layer.kind].create(layer)


class AcmeBackend(IBackend):
    """Light and without a device, so that it can be made anywhere. What else can be overridden: see dovetail.contract.interfaces."""

    @property
    def id(self):
        """Return what users write, and what stands in the manifest and in pyproject.toml."""
        return BackendId("CpuAcme")

    def create_workload_factory(self, context, resources, options):
        """Return the factory for a network that is being loaded."""
        return AcmeFactory()
