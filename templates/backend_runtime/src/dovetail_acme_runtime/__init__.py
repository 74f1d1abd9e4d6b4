"""AcmeRuntime: parts of networks, each as one workload, in a runtime that reads ONNX."""

from functools import partial

import dovetail_onnx

from dovetail import Backend, BackendUnavailableError, OptimizationViews, Support

from . import session


class AcmeBackend(Backend):
    """Backend for what its manifest claims and ONNX can say.

    It is light and needs no runtime: that is imported with the first context.
    """

    def supports(self, layer, options, device):
        """Take a layer or refuse it: by the claims first, then by what ONNX lacks."""
        answer = super().supports(layer, options, device)
        if not answer.supported:
            return answer
        missing = dovetail_onnx.unexportable(layer)
        return Support.no("onnx", missing) if missing else answer

    def create_context(self, device, resources, options):
        """Say that the runtime is missing before a network is loaded; the context is nothing."""
        problem = session.problem()
        if problem:
            raise BackendUnavailableError(f"backend {self.id}: {problem}", state="driver_missing")

    def optimize_subgraph(self, view, options, device):
        """Take each part as one workload.

        Nothing is compiled here: that is what `session.open_session` does, at load.
        """
        views = OptimizationViews(view)
        for part in view.convex_parts():
            views.compile_whole(part, partial(session.open_session, dovetail_onnx.export(part)))
        return views
