"""The plugin of buf, which reads a request of protoc's on standard input, with the language as its option; and the command, which writes all files.

python protos/client_methods [LANGUAGE …]
"""

from __future__ import annotations

import sys
from pathlib import Path

PROTOS = Path(__file__).resolve().parents[1]
if str(PROTOS) not in sys.path:
    sys.path.insert(0, str(PROTOS))

from google.protobuf.compiler.plugin_pb2 import CodeGeneratorRequest, CodeGeneratorResponse  # noqa: E402 - the path is needed first

from client_methods.cpp import Cpp  # noqa: E402
from client_methods.emitter import Emitter  # noqa: E402
from client_methods.go import Go  # noqa: E402
from client_methods.java import Java  # noqa: E402
from client_methods.model import SchemaError, methods_of  # noqa: E402
from client_methods.rust import Rust  # noqa: E402
from client_methods.typescript import TypeScript  # noqa: E402

LANGUAGES: dict[str, type[Emitter]] = {"cpp": Cpp, "go": Go, "java": Java, "rust": Rust, "typescript": TypeScript}


def answer(request: CodeGeneratorRequest) -> CodeGeneratorResponse:
    """What a plugin answers: the files of the language that is the request's option."""
    response = CodeGeneratorResponse(supported_features=CodeGeneratorResponse.FEATURE_PROTO3_OPTIONAL)
    try:
        files = LANGUAGES[request.parameter](methods_of(request.proto_file)).files()
    except SchemaError as error:
        response.error = str(error)
        return response
    for path, text in files.items():
        response.file.add(name=path, content=text)
    return response


def main(chosen: list[str]) -> None:
    """Writes the files of languages into their folders; without a terminal and arguments it is the plugin."""
    import schema_compiler

    methods = methods_of(schema_compiler.compile_files(PROTOS).file)
    for language in chosen or LANGUAGES:
        emitter = LANGUAGES[language](methods)
        for path, text in emitter.files().items():
            (PROTOS.parent / emitter.folder / path).write_text(text)


if __name__ == "__main__":
    if sys.argv[1:] == ["--plugin"]:
        received = CodeGeneratorRequest.FromString(sys.stdin.buffer.read())
        sys.stdout.buffer.write(answer(received).SerializeToString())
    else:
        try:
            main(sys.argv[1:])
        except SchemaError as error:
            sys.exit(str(error))
