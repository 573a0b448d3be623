"""The extras, which are the optional parts of an installation: which modules each extra brings, and the error for one
that is missing.
"""

from __future__ import annotations

from importlib.util import find_spec

from xlashape.errors import UnavailableError

_CLIENT = ("grpc", "google.rpc")

# Extra of pyproject.toml → the modules that it makes importable.
_MODULES: dict[str, tuple[str, ...]] = {
    "client": _CLIENT,
    "mcp": ("mcp",),
    "pandas": ("pandas",),
    "png": ("resvg_py",),
    "polars": ("polars",),
    "ray": ("ray", "ray.data", "pyarrow", "obstore"),
    "scan": ("pyarrow", "obstore"),
    "server": (*_CLIENT, "grpc_health", "grpc_reflection", "grpc_status"),
    "store": ("obstore",),
    "tables": ("pyarrow",),
    "telemetry": ("prometheus_client",),
    "web": ("uvicorn", "h11"),
}

# Extra → its packages in words, for messages. The extras that are not here bring gRPC.
_NEEDS = {
    "mcp": "the SDK of the Model Context Protocol",
    "pandas": "pandas",
    "png": "the renderer resvg",
    "polars": "polars",
    "ray": "Ray Data",
    "scan": "pyarrow and the client of buckets obstore",
    "store": "the client of buckets obstore",
    "tables": "pyarrow",
    "telemetry": "prometheus_client",
    "web": "uvicorn",
}


def is_installed(extra: str) -> bool:
    """Whether every package of the extra is installed: `client`, `mcp`, `pandas`, `png`, `polars`, `ray`, `scan`,
    `server`, `store`, `tables`, `telemetry` or `web`. Of a module within a package, such as `ray.data`, the package is
    imported, since Python has to look into it; other modules are not.
    """
    return _first_missing(extra) is None


def require(extra: str, purpose: str) -> None:
    """Raises UnavailableError if a package of the extra is missing. The message begins with `purpose`, which says what
    needs the extra.
    """
    missing = _first_missing(extra)
    if missing is not None:
        raise UnavailableError(
            f"{purpose} needs {_NEEDS.get(extra, 'gRPC')}, and the module {missing} is not installed: pip install "
            f"'xlashape[{extra}]'"
        )


def _first_missing(extra: str) -> str | None:
    return next((name for name in _MODULES[extra] if not _is_found(name)), None)


def _is_found(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the package that holds the module is missing
        return False
