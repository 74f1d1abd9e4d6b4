"""The entry point: which kernel is in charge of a layer. Imported when CpuAcme is first used, never to list backends."""

from dovetail import BackendId, IBackend, IWorkloadFactory, Support

from . import pooling

# The module in charge of each kind of layer. A layer's kind is the name of its descriptor's class: see dovetail.layers.
KERNELS = {"dovetail.Pooling2d": pooling}


class AcmeFactory(IWorkloadFactory):
    """Turns layers into workloads. One for each loaded network: what a network's kernels share can live here."""

    def create_workload(self, layer):
        """Return the workload of a layer that `supports` took."""
        return KERNELS[layer.kind].create(layer)


class AcmeBackend(IBackend):
    """Light and without a device, so that it can be made anywhere. What else can be overridden: see dovetail.contract.interfaces."""

    @property
    def id(self):
        """Return what users write, and what stands in the manifest and in pyproject.toml."""
        return BackendId("CpuAcme")

    def supports(self, layer, options, device):
        """Take a layer or refuse it, with a code for programs and a reason for people; `dovetail explain` shows both."""
        if layer.kind not in KERNELS:
            return Support.no("kind", f"CpuAcme has no kernel for {layer.kind}")
        return KERNELS[layer.kind].supports(layer)

    def create_workload_factory(self, context, resources, options):
        """Return the factory for a network that is being loaded."""
        return AcmeFactory()
