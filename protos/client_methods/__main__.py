"""The command `python protos/client_methods [LANGUAGE …]`, which writes all files or those of the languages. With
`--plugin` it is a plugin of buf, which reads protoc's CodeGeneratorRequest on standard input.
"""

from __future__ import annotations

import sys
from pathlib import Path

PROTOS = Path(__file__).resolve().parents[1]
if str(PROTOS) not in sys.path:
    sys.path.insert(0, str(PROTOS))

from google.protobuf.compiler.plugin_pb2 import CodeGeneratorRequest, CodeGeneratorResponse  # noqa: E402 - the path is needed first

from client_methods.languages import LANGUAGES, texts  # noqa: E402
from client_methods.model import SchemaError  # noqa: E402
from client_methods.options import with_table  # noqa: E402


def answer(request: CodeGeneratorRequest) -> CodeGeneratorResponse:
    """The answer of the plugin: the files of all languages. Their paths begin at the root of the checkout."""
    response = CodeGeneratorResponse(supported_features=CodeGeneratorResponse.FEATURE_PROTO3_OPTIONAL)
    try:
        for path, text in texts(request.proto_file).items():
            response.file.add(name=path, content=text)
    except SchemaError as error:
        response.error = str(error)
    return response


def main(chosen: list[str]) -> None:
    """Writes the files of the chosen languages, or of all, and the table of options in docs/clients.md."""
    import schema_compiler

    for path, text in texts(schema_compiler.compile_files(PROTOS).file, chosen or LANGUAGES).items():
        (PROTOS.parent / path).write_text(text)
    document = PROTOS.parent / "docs" / "clients.md"
    document.write_text(with_table(document.read_text()))


if __name__ == "__main__":
    if sys.argv[1:] == ["--plugin"]:
        received = CodeGeneratorRequest.FromString(sys.stdin.buffer.read())
        sys.stdout.buffer.write(answer(received).SerializeToString())
    else:
        try:
            main(sys.argv[1:])
        except SchemaError as error:
            sys.exit(str(error))
