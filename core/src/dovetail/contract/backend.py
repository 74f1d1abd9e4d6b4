"""A backend whose parts are the defaults: it states its kernels, and its manifest says the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from ..graph.layer import Layer
from ..ground.errors import BackendError, ErrorCode
from .backend_id import BackendId
from .interfaces import HostResources, IBackend, IBackendContext, IWorkloadFactory
from .own_manifest import own_id
from .private_layer import PrivateLayer


class Backend(IBackend):
    """Base of backends that need no parts of their own; any method of `IBackend` may be overridden.

    ::

        class AcmeBackend(Backend):
            kernels = {"dovetail.Pooling2d": pooling.create}

    The id is that of the manifest in the backend's package, whose claims decide what is taken.

    Class attributes:
        kernels: By kind, what returns the workload of a layer, as
            `IWorkloadFactory.create_workload` does.
    """

    kernels: ClassVar[Mapping[str, Callable[[Layer], Any]]] = {}

    @property
    def id(self) -> BackendId:
        """The id that the manifest states.

        Raises:
            BackendError: The package of the class has no manifest, or one of several backends
                (`BACKEND_CONTRACT`).
        """
        return own_id(type(self))

    def create_workload_factory(
        self, context: IBackendContext | None, resources: HostResources, options: Any
    ) -> IWorkloadFactory:
        """Return a factory of `kernels`."""
        return KernelFactory(self, context, resources, options)


class KernelFactory(IWorkloadFactory):
    """Makes the workloads of a `Backend`, each by the kernel of its layer.

    Attributes:
        backend: Whose factory it is.
        context, resources, options: What the core handed in, for kernels and for what compiles
            parts.
    """

    def __init__(self, backend: Backend, context: IBackendContext | None, resources: HostResources, options: Any) -> None:
        self.backend = backend
        self.context = context
        self.resources = resources
        self.options = options

    def create_workload(self, layer: Layer) -> Any:
        create = self.backend.kernels.get(layer.kind)
        if create is None:
            raise BackendError(
                f"backend {str(self.backend.id)!r} takes layers of kind {layer.kind} and has no kernel for them",
                code=ErrorCode.BACKEND_CONTRACT,
                hint=f"add {layer.kind!r} to `kernels`, or leave it out of the manifest's claims",
            )
        return create(layer)

    def release(self, layer: Layer) -> None:
        if isinstance(layer.descriptor, PrivateLayer):
            layer.descriptor.release()
