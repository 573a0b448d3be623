"""The methods of the client for TypeScript, in lines of at most 160 characters."""

from __future__ import annotations

import base64
import re
from pathlib import PurePosixPath
from typing import ClassVar

from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.rpc import error_details_pb2

from client_methods.emitter import GENERATOR, Emitter, camel
from client_methods.model import PACKAGE, Batch, Bulk, Field, Pages, Parameters, Rpc, Unary, snake
from client_methods.transfers import TYPESCRIPT, TYPESCRIPT_METHODS, TYPESCRIPT_TYPES

_SCALARS = {
    "string": "string",
    "bytes": "Uint8Array",
    "bool": "boolean",
    **dict.fromkeys(("int64", "sint64", "sfixed64", "uint64", "fixed64"), "bigint"),
    **dict.fromkeys(("int32", "sint32", "sfixed32", "uint32", "fixed32", "double", "float"), "number"),
}
_INPUTS = {
    "ShapeInput": ("ShapeLike", "shapeInput"),
    "ModuleInput": ("ModuleLike", "moduleInput"),
    "MapInput": ("MapLike", "mapInput"),
}
"""Message that clients take in several forms → the type of a parameter that takes them, and the function that makes the
message."""
_RESULTS = {"MultiIndex": "BulkIndices", "EvaluateMap": "Evaluated<BigInt64Array>"}
"""RPC → the named type that its method for many questions returns."""
_IMPORTS = {
    "@bufbuild/protobuf": ["type MessageInitShape"],
    "@connectrpc/connect": ["type Client as Generated", "createClient", "type Transport"],
    "./answers.js": ["present", "sameNumber"],
    "./bulk.js": ["ask", "type BulkIndices", "type BulkQuestion", "type BulkRoute", "type Widths"],
    "./calls.js": ["type CallOptions"],
    "./errors.js": ["check", "Code", "XlashapeError"],
    "./evaluable-map.js": ["type Evaluated"],
    "./inputs.js": [
        "type About",
        "type AboutOne",
        "aboutOne",
        "type MapLike",
        "mapInput",
        "type ModuleLike",
        "moduleInput",
        "type ShapeLike",
        "shapeInput",
    ],
    "./integers.js": ["type Integer", "type Integers", "toInt64", "toInt64Array"],
}
_COLUMNS = 160
_SCHEMA = "/** The generated messages, enums and services of `xlashape.v1`. */\n\n"

_ERROR_INFO = """\
import type { Message } from "@bufbuild/protobuf";
import { fileDesc, type GenMessage, messageDesc } from "@bufbuild/protobuf/codegenv2";

/** The detail of an error that says what is wrong: a google.rpc.ErrorInfo. */
export type ErrorInfo = Message<"google.rpc.ErrorInfo"> & { reason: string; domain: string; metadata: { [key: string]: string } };

/** The schema of an ErrorInfo. */
export const ErrorInfoSchema: GenMessage<ErrorInfo> = /* @__PURE__ */ messageDesc(/* @__PURE__ */ fileDesc(
  "FILE",
), 0);
"""

_PACKED = """\
%s

/**
 * The RPCs about many integers, with `bytes` instead of `repeated sfixed64`: both are the same on the wire, and bytes
 * become a BigInt64Array without a bigint for each number.
 */
const file = /* @__PURE__ */ fileDesc(
  "%s",
  [%s],
);
%s
"""

_HEAD = """\
/** What a client asks the server: a method for each RPC. */
export abstract class ClientMethods {
  /** The generated clients, for calls that the methods of this class do not cover. To end a stream of theirs early takes a signal. */
FIELDS

  /** Use `connect`. @internal */
  constructor(
    /** The transport of all calls, for generated clients of other services such as `grpc.health.v1.Health`. */
    readonly transport: Transport,
    protected readonly hasStreams: boolean,
  ) {
MADE
  }

  private async rank(shape: ShapeLike, options: CallOptions | undefined): Promise<number> {
    return Number((await this.describeShape(shape, options)).rank ?? 1n);
  }

  /** The integers of a point of a map, and of its results. The server reads a map in text. */
  private async widths(map: MapInput, options: CallOptions | undefined): Promise<Widths> {
    const { dimensions, ranges, runtime, results } = map.form.case === "map" ? map.form.value : present((await this.parseMap(map, options)).map);
    return { question: dimensions.length + ranges.length + runtime.length, answer: results.length };
  }

  private route(options: CallOptions | undefined): BulkRoute {
    return { transport: this.transport, ...options };
  }
"""


class TypeScript(Emitter):
    """Writes the methods of `Client` in TypeScript, in a class that `Client` extends."""

    folder = "clients/typescript/src"
    comment_columns = _COLUMNS
    words: ClassVar[dict[str, str]] = {
        "map": "{@link EvaluableMap}",
        "nothing": "undefined",
        "in_parts": "in several calls",
        "not_found": "`Code.NotFound`",
    }
    after_pages = " Pages are fetched as they are needed."

    def files(self) -> dict[str, str]:
        services = {method.rpc.service: method.rpc.client for method in self.methods}
        fields = "\n".join(
            f"  readonly {camel(name)}: Generated<typeof {service}>;" for service, name in services.items()
        )
        made = "\n".join(
            f"    this.{camel(name)} = createClient({service}, transport);" for service, name in services.items()
        )
        head = _HEAD.replace("FIELDS", fields).replace("MADE", made)
        lines = [line for method in self.methods for line in self.lines(method)]
        body = "\n".join([TYPESCRIPT_TYPES, head, *lines[1:], "", f"{TYPESCRIPT_METHODS}}}", "", TYPESCRIPT])
        first = f"// @generated by {GENERATOR} from the schema. Do not edit."
        return {
            "methods.ts": f"{first}\n\n{self._imports(body)}\n\n{body}",
            "error-info.ts": f"{first}\n\n{_ERROR_INFO.replace('FILE', _error_info())}",
            "packed.ts": f"{first}\n\n{self._packed()}",
            "registry.ts": f"{first}\n\n{self._registry()}",
            "schema.ts": f"{first}\n\n{_SCHEMA}{self._exports()}",
        }

    def _schema_files(self) -> list[str]:
        """The files that declare services, and the messages and enums of their requests and answers."""
        return sorted(
            {
                declared.file
                for method in self.methods
                for message in (method.rpc.request, method.rpc.answer)
                for declared in (method.rpc, message, *message.fields)
                if declared.file
            }
        )

    def _exports(self) -> str:
        return "".join(f'export * from "{_path(file)}";\n' for file in self._schema_files())

    def _registry(self) -> str:
        files = self._schema_files()
        imports = [_import("@bufbuild/protobuf", ["createRegistry"]), ""]
        imports += [_import(_path(file), [_file_constant(file)]) for file in files]
        named = "".join(f"  {_file_constant(file)},\n" for file in files)
        made = f"export const registry = /* @__PURE__ */ createRegistry(\n{named});\n"
        return "\n".join([*imports, "", "/** All messages of the schema, by their names. */", made])

    def _packed(self) -> str:
        bulk = [method for method in self.methods if isinstance(method, Bulk)]
        file = _packed_file(self.schema_files, [method.rpc for method in bulk])
        content = base64.b64encode(file.SerializeToString(deterministic=True)).decode()
        imports = [
            _import("@bufbuild/protobuf", ["type DescMethodUnary"]),
            _import("@bufbuild/protobuf/codegenv2", ["fileDesc", "serviceDesc"]),
            "",
            *(_import(_path(path), [_file_constant(path)]) for path in file.dependency),
        ]
        constants = ", ".join(_file_constant(path) for path in file.dependency)
        services = [service.name for service in file.service]
        made = [
            f"const {camel(snake(name))} = /* @__PURE__ */ serviceDesc(file, {i});" for i, name in enumerate(services)
        ]
        for method in bulk:
            service = f"{camel(snake(method.rpc.service))}.method"
            made.append(
                f"export const {camel(method.plural)} = {service}.{camel(snake(method.rpc.name))} as DescMethodUnary;"
            )
        return _PACKED % ("\n".join(imports), content, constants, "\n".join(made))

    def reference(self, name: str) -> str:
        return f"`{camel(name)}`"

    def _imports(self, body: str) -> str:
        code = re.sub(r"/\*\*.*?\*/", "", body, flags=re.DOTALL)
        declared: dict[str, set[str]] = {}
        for method in self.methods:
            rpcs = [method.rpc, method.stream] if isinstance(method, Bulk) else [method.rpc]
            for rpc in rpcs:
                declared.setdefault(_path(rpc.file), set()).update({rpc.service, _file_constant(rpc.file)})
                for message in (rpc.request, rpc.answer):
                    declared.setdefault(_path(message.file), set()).update(
                        {f"type {message.name}", f"{message.name}Schema"}
                    )
                    for field in message.fields:
                        if field.is_message or field.is_enum:
                            is_value = re.search(rf"\b{field.type}\.", code)
                            named = {field.type if is_value else f"type {field.type}", f"{field.type}Schema"}
                            declared.setdefault(_path(field.file), set()).update(named)
            if isinstance(method, Batch) and method.part and method.part.file:
                declared.setdefault(_path(method.part.file), set()).add(f"type {method.part.type}")
        for rpc in (method.rpc for method in self.methods if method.rpc.name == "GetModule"):
            declared[_path(rpc.file)].add("type UploadModuleRequestSchema")
        packed = sorted(camel(method.plural) for method in self.methods if isinstance(method, Bulk))
        paths = {
            **_IMPORTS,
            "./packed.js": packed,
            **{path: sorted(names, key=_sorting) for path, names in declared.items()},
        }
        used = {
            path: [name for name in names if re.search(rf"\b{name.split()[-1]}\b", code)]
            for path, names in paths.items()
        }
        own = [_import(path, used[path]) for path in sorted(used) if used[path] and path.startswith("./")]
        others = [_import(path, used[path]) for path in sorted(used) if used[path] and not path.startswith("./")]
        return "\n".join([*others, "", *own])

    def _method(
        self, head: str, comment: str, parameters: list[str], result: str, body: list[str], options: str = ""
    ) -> list[str]:
        taken = ", ".join([*parameters, f"options?: CallOptions{options}"])
        signature = f"  {head}({taken}): {result} {{"
        lines = [signature]
        if len(signature) > _COLUMNS:
            lines = [f"  {head}(", f"    {taken},", f"  ): {result} {{"]
        return ["", *self._doc(self.comment(comment)), *lines, *(f"    {line}" for line in body), "  }"]

    def _doc(self, text: str) -> list[str]:
        if "\n" not in text and len(text) + 9 <= _COLUMNS:
            return [f"  /** {text} */"]
        return ["  /**", *self.wrapped(text, "   * "), "   */"]

    def unary(self, method: Unary) -> list[str]:
        rpc = method.rpc
        taken, request = _request(rpc)
        return self._method(
            f"async {camel(method.name)}",
            method.comment,
            [taken],
            f"Promise<{rpc.answer.name}>",
            [f"return await {_call(rpc, request)};"],
        )

    def parameters(self, method: Parameters) -> list[str]:
        taken = [f"{camel(field.name)}: {_taken(field)}" for field in method.parameters]
        request = "{ " + ", ".join(_given(field) for field in method.parameters) + " }"
        called = f"await {_call(method.rpc, request)}"
        if method.result is None:
            result, body = "void", [f"{called};"]
        else:
            got = f"({called}).{camel(method.result.name)}"
            is_message = method.result.is_message and not method.result.is_repeated
            result, body = _type(method.result), [f"return present({got});" if is_message else f"return {got};"]
        return self._method(f"async {camel(method.name)}", method.comment, taken, f"Promise<{result}>", body)

    def batch(self, method: Batch) -> list[str]:
        item, many = camel(method.item), camel(method.items.name)
        answers, of = f"answer.{camel(method.answers.name)}", method.items
        if method.spread:
            taken, value = (
                f"readonly {_taken(method.spread, one=True)}[]",
                f"{{ {camel(method.spread.name)}: {_each(method.spread, item)} }}",
            )
        else:
            taken, value = _taken(of, one=True), _made(of, item)
        if method.plural:
            got = f"(await this.{camel(method.plural)}([{value if method.spread else item}], options))[0]!"
            body = []
        else:
            got = f"sameNumber({answers}, 1)[0]!"
            body = [f"const answer = await {_call(method.rpc, f'{{ {many}: [{value}] }}')};"]
        returned = method.part or method.answers
        if method.part:
            got = f"{got}.{camel(method.part.name)}"
            got = f"present({got})" if method.part.is_message and not method.part.is_repeated else got
        body.append(f"return {got};")
        result = _type(returned, one=returned is method.answers)
        lines = self._method(
            f"async {camel(method.name)}", method.comment, [f"{item}: {taken}"], f"Promise<{result}>", body
        )
        if method.plural:
            values = many if _each(of, many) == many else f"{many}: {_each(of, many)}"
            body = [
                f"const answer = await {_call(method.rpc, f'{{ {values} }}')};",
                f"return sameNumber({answers}, {many}.length);",
            ]
            taken = f"{many}: readonly {_taken(of, one=True)}[]"
            result = f"Promise<{_type(method.answers, one=True)}[]>"
            lines += self._method(f"async {camel(method.plural)}", method.plural_comment, [taken], result, body)
        return lines

    def pages(self, method: Pages) -> list[str]:
        rpc, items = method.rpc, camel(method.items.name)
        taken, request = _request(rpc)
        body = [f"const first = {request};"] if request != "request" else []
        first = "first" if body else "request"
        table = f", table: {method.table_type}.{method.table_member}" if method.table else ""
        body += [
            f'for (let pageToken = {first}.pageToken ?? "", isMore = true; isMore; isMore = pageToken !== "") {{',
            f"  const page = await {_call(rpc, f'{{ ...{first}, pageToken{table} }}')};",
            f"  yield* page.{items};",
            "  pageToken = page.nextPageToken;",
            "}",
        ]
        result = f"AsyncGenerator<{_type(method.items, one=True)}>"
        return self._method(f"async *{camel(method.name)}", method.comment + self.after_pages, [taken], result, body)

    def bulk(self, method: Bulk) -> list[str]:
        return [*(self._one_question(method) if method.has_single else []), *self._many_questions(method)]

    def _one_question(self, method: Bulk) -> list[str]:
        subject, number, numbers = camel(method.subject.name), camel(method.number), camel(method.numbers.name)
        is_wide = method.width != "1"
        if is_wide:
            prepared = f"const {numbers} = Array.from({number}, (value, i) => toInt64(value, `{numbers}[${{i}}]`));"
        else:
            prepared = f'const {numbers} = [toInt64({number}, "{numbers}[0]")];'
        values = [
            _given(method.subject),
            numbers,
            *(["count: 1n"] if method.has_count else []),
            *_options_given(method),
        ]
        request = ", ".join(values)
        body = [prepared, f"const answer = await {_call(method.rpc, f'{{ {request} }}')};"]
        answers, is_many = f"answer.{camel(method.answers.name)}", method.answer_width != "1"
        result = "bigint[]" if is_many else "bigint"
        if method.flags:
            found = answers if is_many else f"{answers}[0]"
            body.append(f"return sameNumber(answer.{camel(method.flags.name)}, 1)[0] ? {found} : undefined;")
            result += " | undefined"
        else:
            body.append(f"return {answers};" if is_many else f"return sameNumber({answers}, 1)[0]!;")
        taken = [f"{subject}: {_taken(method.subject)}", f"{number}: {'Integers' if is_wide else 'Integer'}"]
        return self._method(
            f"async {camel(method.name)}", method.comment, taken, f"Promise<{result}>", body, _options(method)
        )

    def _many_questions(self, method: Bulk) -> list[str]:
        subject, numbers, answers = (camel(field.name) for field in (method.subject, method.numbers, method.answers))
        flags = camel(method.flags.name) if method.flags else ""
        fields = [f'request: "{numbers}"', f'answer: "{answers}"', *([f'flags: "{flags}"'] if flags else [])]
        input_ = _made(method.subject, subject)
        prepared: list[str] = []
        if "rank" in (method.width, method.answer_width):
            rank = f"await this.rank({subject}, options)"
            widths = {"question": rank, "answer": "1"} if method.width == "rank" else {"question": "1", "answer": rank}
            found = f"async () => ({{ {', '.join(f'{name}: {value}' for name, value in widths.items())} }})"
        else:
            prepared, input_ = [f"const input = {input_};"], "input"
            found = "() => this.widths(input, options)"
        first = [f"{subject}: {input_}" if input_ != subject else subject, *_options_given(method)]
        body = [
            *prepared,
            "const bulk: BulkQuestion = {",
            f"  rpc: {camel(method.plural)},",
            f"  first: {{ {', '.join(first)} }},",
            f"  fields: {{ {', '.join(fields)} }},",
            f'  integers: toInt64Array({numbers}, "{numbers}"),',
            f"  isAnswerLarge: {'false' if method.answer_width == '1' else 'true'},",
            "};",
            f"const {{ integers{', flags' if flags else ''} }} = await ask(this.route(options), bulk, {found});",
        ]
        if flags:
            checked = f"sameNumber(flags, {numbers}.length)" if method.width == "1" else "flags"
            body.append(f"return {{ {answers}: integers, {flags}: {checked} }};")
            result = _RESULTS.get(method.rpc.name, f"{{ {answers}: BigInt64Array; {flags}: boolean[] }}")
        else:
            body.append("return integers;")
            result = "BigInt64Array"
        taken = [f"{subject}: {_taken(method.subject)}", f"{numbers}: Integers"]
        return self._method(
            f"async {camel(method.plural)}", method.plural_comment, taken, f"Promise<{result}>", body, _options(method)
        )


def _error_info() -> str:
    """The descriptor of Google's file that declares ErrorInfo, cut down to that message, in base64."""
    whole = FileDescriptorProto.FromString(error_details_pb2.DESCRIPTOR.serialized_pb)
    messages = [message for message in whole.message_type if message.name == "ErrorInfo"]
    file = FileDescriptorProto(name=whole.name, package=whole.package, syntax=whole.syntax, message_type=messages)
    return base64.b64encode(file.SerializeToString(deterministic=True)).decode()


def _packed_file(files: list[FileDescriptorProto], rpcs: list[Rpc]) -> FileDescriptorProto:
    """A file that declares these RPCs alone, with `bytes` in place of `repeated sfixed64` in their messages."""
    made = FileDescriptorProto(name="xlashape/v1/packed.proto", package=PACKAGE, syntax="proto3")
    messages = {message.name for rpc in rpcs for message in (rpc.request, rpc.answer)}
    dependencies: set[str] = set()
    for file in files:
        kept = [message for message in file.message_type if message.name in messages]
        if kept:
            made.message_type.extend(kept)
            made.enum_type.extend(file.enum_type)
            dependencies.update(path for path in file.dependency if path.startswith("xlashape/"))
            for service in file.service:
                methods = [method for method in service.method if method.name in {rpc.name for rpc in rpcs}]
                made.service.add(name=service.name, method=methods)
    made.dependency.extend(sorted(dependencies))
    for message in made.message_type:
        for field in message.field:
            if (field.type, field.label) == (field.TYPE_SFIXED64, field.LABEL_REPEATED):
                field.type, field.label = field.TYPE_BYTES, field.LABEL_OPTIONAL
    return made


def _path(file: str) -> str:
    return f"./gen/{PurePosixPath(file).with_suffix('')}_pb.js"


def _file_constant(file: str) -> str:
    return f"file_{PurePosixPath(file).with_suffix('').as_posix().replace('/', '_')}"


def _sorting(name: str) -> str:
    return name.removeprefix("type ").lower()


def _import(path: str, names: list[str]) -> str:
    if all(name.startswith("type ") for name in names):
        names = [name.removeprefix("type ") for name in names]
        head = "import type"
    else:
        head = "import"
    line = f'{head} {{ {", ".join(names)} }} from "{path}";'
    if len(line) <= _COLUMNS:
        return line
    lines, row = [f"{head} {{"], " "
    for name in names:
        if len(row) + len(name) + 2 > _COLUMNS:
            lines.append(row)
            row = " "
        row += f" {name},"
    return "\n".join([*lines, row, f'}} from "{path}";'])


def _call(rpc: Rpc, request: str) -> str:
    return f"this.{camel(rpc.client)}.{camel(snake(rpc.name))}({request}, options)"


def _request(rpc: Rpc) -> tuple[str, str]:
    """For a method that takes the whole request: its parameter, and the expression of the request that it sends."""
    subjects = " | ".join([f'"{field.name}"' for field in rpc.request.fields if field.is_subject])
    if subjects:
        return f"request: AboutOne<{rpc.request.name}, {subjects}>", "aboutOne(request)"
    if any(field.type == "ModuleInput" and field.name == "module" for field in rpc.request.fields):
        return f"request: About<{rpc.request.name}>", "{ ...request, module: moduleInput(request.module) }"
    return f"request: MessageInitShape<typeof {rpc.request.name}Schema>", "request"


def _options(method: Bulk) -> str:
    told = "; ".join(f"{camel(field.name)}?: {field.type}" for field in method.options)
    return f" & {{ {told} }}" if told else ""


def _options_given(method: Bulk) -> list[str]:
    names = [camel(field.name) for field in method.options]
    return [f"...(options?.{name} !== undefined && {{ {name}: options.{name} }})" for name in names]


def _taken(field: Field, *, one: bool = False) -> str:
    if field.type in _INPUTS:
        told = _INPUTS[field.type][0]
    else:
        told = f"MessageInitShape<typeof {field.type}Schema>" if field.is_message else _type(field, one=True)
    return f"readonly {told}[]" if field.is_repeated and not one else told


def _made(field: Field, value: str) -> str:
    return f"{_INPUTS[field.type][1]}({value})" if field.type in _INPUTS else value


def _each(field: Field, values: str) -> str:
    return f"{values}.map({_INPUTS[field.type][1]})" if field.type in _INPUTS else f"[...{values}]"


def _given(field: Field) -> str:
    name = camel(field.name)
    value = _made(field, name)
    return name if value == name else f"{name}: {value}"


def _type(field: Field, *, one: bool = False) -> str:
    told = field.type if field.is_message or field.is_enum else _SCALARS[field.type]
    return f"{told}[]" if field.is_repeated and not one else told
