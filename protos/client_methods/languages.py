"""All languages, and the files that are written for them."""

from __future__ import annotations

from collections.abc import Iterable

from google.protobuf.descriptor_pb2 import FileDescriptorProto

from client_methods import error_parts, inputs, options, reasons
from client_methods.cpp import Cpp
from client_methods.emitter import Emitter
from client_methods.go import Go
from client_methods.java import Java
from client_methods.kotlin import Kotlin
from client_methods.model import methods_of, retried_of
from client_methods.rust import Rust
from client_methods.typescript import TypeScript

LANGUAGES: dict[str, type[Emitter]] = {
    "cpp": Cpp,
    "go": Go,
    "java": Java,
    "kotlin": Kotlin,
    "rust": Rust,
    "typescript": TypeScript,
}


def texts(files: Iterable[FileDescriptorProto], chosen: Iterable[str] = LANGUAGES) -> dict[str, str]:
    """Path of a file, from the root of the checkout → its text, for the chosen languages. SchemaError for an RPC that
    fits no kind of method.
    """
    files = list(files)
    methods, retried = methods_of(files), retried_of(files)
    emitters = [LANGUAGES[language](methods, retried, files) for language in chosen]
    methods_of_clients = {f"{one.folder}/{path}": text for one in emitters for path, text in one.files().items()}
    folders = tuple(f"clients/{language}/" for language in chosen)
    others = reasons.texts() | error_parts.texts() | options.texts() | inputs.texts(files)
    return methods_of_clients | {path: text for path, text in others.items() if path.startswith(folders)}
