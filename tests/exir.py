"""ExecuTorch's export library, imported as builds import it: without PyTorch's compiler, its tables read by libyaml."""

from deuteron.frontend import upstream_caches

with upstream_caches.importing():
    from executorch.exir import EdgeCompileConfig, to_edge
    from executorch.exir.backend.backend_api import to_backend
    from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult

__all__ = ["BackendDetails", "EdgeCompileConfig", "PreprocessResult", "to_backend", "to_edge"]
