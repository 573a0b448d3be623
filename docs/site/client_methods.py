"""Methods of the Python clients as they are on `Client`. Their source is that of both clients: coroutine functions, and
functions that return `Items`."""

from __future__ import annotations

from typing import Any

from griffe import Expr, Extension, Function

_PACKAGE = "xlashape_client.methods."


def on_client(annotation: str) -> str:
    """What a method returns on `Client`.

    >>> on_client("Items[Instruction]"), on_client("ShapeSize")
    ('Iterator[Instruction]', 'ShapeSize')
    """
    return f"Iterator[{annotation[len('Items[') :]}" if annotation.startswith("Items[") else annotation


class ClientMethods(Extension):
    """Griffe calls this with each function that it has read."""

    def on_function(self, *, func: Function, **_: Any) -> None:
        if func.path.startswith(_PACKAGE) and not func.name.startswith("_"):
            func.labels.discard("async")
            annotation: str | Expr | None = func.returns
            if annotation is not None and str(annotation).startswith("Items["):
                func.returns = on_client(str(annotation))
