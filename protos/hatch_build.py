"""The build hook: compiles the schema beside it before a wheel, or an editable install, is made."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class SchemaBuildHook(BuildHookInterface[Any]):
    """Writes xlashape/proto/schema.binpb, the stubs and xlashape/v1. Runs for every way to install: wheel, sdist's
    wheel, editable.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it collects files; what it writes is listed in `artifacts` of pyproject.toml."""
        protos = Path(self.root) / "protos"
        sys.path.insert(0, str(protos))
        try:
            import schema_compiler
        finally:
            sys.path.remove(str(protos))
        schema_compiler.build(protos, Path(self.root) / "xlashape")
