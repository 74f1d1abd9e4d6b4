"""What a runtime lends to a backend: threads, and the store of its artefacts."""

from __future__ import annotations

from typing import Any

from ..contract.artefacts import ArtefactStore, device_facts, folder_of, option_facts
from ..contract.backend_calls import devices_of
from ..contract.interfaces import HostResources, IBackend
from ..discovery.registry import GROUP


def resources_for(backend: IBackend, device: int, options: Any, threads: int) -> HostResources:
    """Return what a backend may use for one device with these options.

    Its files are looked at when a key is made. The number of threads is part of keys unless its
    manifest says that it decides nothing.
    """

    def facts() -> dict[str, str] | None:
        from ..discovery.backend_files import content_of, version_of_backend  # of no use where nothing is kept

        content = content_of(backend)
        if content is None:
            return None
        decides = (backend.manifest or {}).get("threads_decide", True)
        return {
            "version": version_of_backend(backend, GROUP),
            "files": content,
            **device_facts(devices_of(f"backend {str(backend.id)!r}", backend)[device]),
            **({"threads": str(threads)} if decides else {}),
            **option_facts(options, names_device=type(backend).device_of is not IBackend.device_of),
        }

    return HostResources(threads, ArtefactStore(str(backend.id), folder_of(options), facts))
