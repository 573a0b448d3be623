"""The methods of the clients, the same in all languages. They are made from the descriptors of `xlashape.v1`, the
schema's comments, and `overrides.py`.

The kind of a method follows from its RPC:

| kind | the RPC | the method |
|---|---|---|
| `Unary` | has no streams, and fits no other kind | takes the request, returns the answer |
| `Parameters` | has `parameters` in `overrides.py` | takes fields of the request, returns one field of the answer |
| `Batch` | the request begins with a repeated message, the answer is one | one method for one item, one for many |
| `Pages` | has `page_token` and `next_page_token` | returns an iterator over the items of all pages |
| `Report` | has pages, and a `headline` | takes the request, returns a page; an iterator over the rows of each table |
| `Bulk` | has no streams, and a streaming RPC has its fields | one method for many numbers, one for one question |
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from google.protobuf.descriptor_pb2 import (
    FieldDescriptorProto,
    FileDescriptorProto,
    MethodDescriptorProto,
    OneofDescriptorProto,
    ServiceDescriptorProto,
)

from client_methods.overrides import NUMBERS_A_ROW, RPCS, SERVICES, WRITTEN_BY_HAND, Override

PACKAGE = "xlashape.v1"


@dataclass(frozen=True)
class Field:
    """A field of a message."""

    name: str
    type: str
    """The name of a message or an enum in its package, or of a scalar type of protobuf: `string`, `sfixed64`."""
    is_repeated: bool = False
    is_message: bool = False
    is_enum: bool = False
    comment: str = ""
    file: str = ""
    """Where the type is a message or an enum: the file that declares it, `xlashape/v1/types.proto`."""
    is_subject: bool = False
    """Whether the field is one of the oneof `subject`, of which a request sets one."""

    @property
    def is_input(self) -> bool:
        """Whether clients take the field in several forms, as they do shapes, modules and maps."""
        return self.is_message and self.type.endswith("Input")


@dataclass(frozen=True)
class Message:
    """A message of the schema: a request, an answer, or a part of one."""

    name: str
    fields: tuple[Field, ...]
    comment: str = ""
    file: str = ""
    """The file that declares the message."""

    def field(self, name: str) -> Field:
        return next(field for field in self.fields if field.name == name)


@dataclass(frozen=True)
class Rpc:
    """An RPC of the schema."""

    name: str
    service: str
    """The name of the service: `ShapeService`."""
    file: str
    """The file that declares the service."""
    client: str
    """The name that our client gives to the generated client of the service: `shapes`."""
    request: Message
    answer: Message
    comment: str
    is_retried: bool = False
    """Whether clients send the RPC again while the server is unavailable: it has one request and one answer, and by its
    `idempotency_level` a second request changes nothing.
    """

    @property
    def path(self) -> str:
        return f"{PACKAGE}.{self.service}/{self.name}"


@dataclass(frozen=True)
class Method:
    """The client's method for an RPC, or its two methods: for one question and for many. Names are in snake_case."""

    name: str
    comment: str
    rpc: Rpc


@dataclass(frozen=True)
class Unary(Method):
    """Takes the request, and returns the answer."""


@dataclass(frozen=True)
class Parameters(Method):
    """Takes fields of the request, and returns a field of the answer, or nothing."""

    parameters: tuple[Field, ...]
    result: Field | None


@dataclass(frozen=True)
class Batch(Method):
    """Two methods. The one of `name` and `comment` takes an item and returns its answer. The one of `plural` and
    `plural_comment` takes many items and returns an answer for each.
    """

    plural: str
    """Empty if there is no method for many items."""
    plural_comment: str
    items: Field
    """The field of the request that has the items."""
    item: str
    """The name of one item."""
    spread: Field | None
    """Where an item consists of one repeated field: this field. The methods take its values instead of the item."""
    answers: Field
    """The field of the response that has the answers."""
    part: Field | None
    """The field of the answer to an item that the methods return; None if they return the whole answer."""
    answer: Message
    """The answer to one item."""


@dataclass(frozen=True)
class Pages(Method):
    """Returns an iterator over the items of all pages, from the page that the request names on."""

    items: Field
    """The field of the answer that has the items of a page."""
    table: str = ""
    """Of a report with several tables: the value of the request's enum `table` that names the table of the items."""

    @property
    def table_type(self) -> str:
        """The name of the enum of `table`."""
        return self.rpc.request.field("table").type

    @property
    def table_member(self) -> str:
        """`table` without the name of its enum: `TIMELINE` of `MEMORY_TABLE_TIMELINE`."""
        return self.table.removeprefix(f"{snake(self.table_type).upper()}_")


@dataclass(frozen=True)
class Report(Unary):
    """A method that takes the request and returns a page, and one for each table of the report."""

    tables: tuple[Pages, ...]


@dataclass(frozen=True)
class Bulk(Method):
    """Two methods. The one of `plural` and `plural_comment` takes many numbers, and returns many. The one of `name` and
    `comment` is for one question, such as one index.
    """

    plural: str
    """The same as `name` if there is no method for one question."""
    plural_comment: str
    stream: Rpc
    """The RPC with the same fields, with streams both ways."""
    subject: Field
    """The field of the request that says what the numbers belong to: a shape or a map."""
    options: tuple[Field, ...]
    """The fields of the request that are enums."""
    numbers: Field
    """The field of the request that has the numbers."""
    width: str
    """How many of these numbers make a question: `1`, `rank`, `variables`."""
    answers: Field
    """The field of the answer that has the numbers."""
    answer_width: str
    """How many of these numbers answer a question: `1`, `rank`, `results`."""
    flags: Field | None
    """The field of the answer that has a flag for each question; where it is false, the numbers mean nothing."""
    has_count: bool
    """Whether the request says how many questions it has."""

    @property
    def has_single(self) -> bool:
        return self.name != self.plural

    @property
    def number(self) -> str:
        """The name of the numbers of one question."""
        return "index" if self.numbers.name == "indices" else self.numbers.name.removesuffix("s")


class SchemaError(Exception):
    """An RPC fits no kind of method."""


def methods_of(files: Iterable[FileDescriptorProto]) -> list[Method]:
    """The methods for the RPCs of `files`: services in the order of `SERVICES`, the RPCs of each in the order of its
    file. SchemaError for an RPC that no kind fits.
    """
    files = [file for file in files if file.package == PACKAGE]
    schema = _Schema(files)
    found: list[tuple[ServiceDescriptorProto, list[Method]]] = []
    for file in files:
        comments = comments_of(file)
        for service in file.service:
            rpcs = {method.name: schema.rpc(service, method, comments) for method in service.method}
            found.append((service, schema.methods(service, rpcs)))
    order = list(SERVICES)
    found.sort(key=lambda pair: order.index(pair[0].name) if pair[0].name in order else len(order))
    return [method for _, methods in found for method in methods]


def retried_of(files: Iterable[FileDescriptorProto]) -> list[Rpc]:
    """The RPCs that clients send again while the server is unavailable."""
    files = [file for file in files if file.package == PACKAGE]
    schema = _Schema(files)
    rpcs = (schema.rpc(service, method, {}) for file in files for service in file.service for method in service.method)
    return sorted((rpc for rpc in rpcs if rpc.is_retried), key=lambda rpc: [*SERVICES, rpc.service].index(rpc.service))


def comments_of(file: FileDescriptorProto) -> dict[tuple[int, ...], str]:
    """The comments above the declarations of a file, by the path that `SourceCodeInfo` gives each declaration. Each
    paragraph is one line.
    """
    found: dict[tuple[int, ...], str] = {}
    for location in file.source_code_info.location:
        paragraphs = re.split(r"\n\s*\n", location.leading_comments.strip())
        found[tuple(location.path)] = "\n\n".join(" ".join(text.split()) for text in paragraphs)
    return found


class _Schema:
    def __init__(self, files: list[FileDescriptorProto]) -> None:
        self.files = files
        declared = [(file, declared) for file in files for declared in (*file.message_type, *file.enum_type)]
        home = {f".{file.package}.{one.name}": file.name for file, one in declared}
        self.messages: dict[str, Message] = {}
        for file in files:
            comments = comments_of(file)
            for i, message in enumerate(file.message_type):
                fields = (
                    _field(field, comments.get((4, i, 2, k), ""), home.get(field.type_name, ""), message.oneof_decl)
                    for k, field in enumerate(message.field)
                )
                made = Message(message.name, tuple(fields), comments.get((4, i), ""), file.name)
                self.messages[f".{file.package}.{message.name}"] = made

    def rpc(
        self, service: ServiceDescriptorProto, method: MethodDescriptorProto, comments: dict[tuple[int, ...], str]
    ) -> Rpc:
        file = next(file for file in self.files if service in file.service)
        path = (6, list(file.service).index(service), 2, list(service.method).index(method))
        client = SERVICES.get(service.name) or snake(service.name.removesuffix("Service"))
        request, answer = self.messages[method.input_type], self.messages[method.output_type]
        is_pure = method.options.idempotency_level != method.options.IDEMPOTENCY_UNKNOWN
        is_retried = is_pure and not method.client_streaming and not method.server_streaming
        return Rpc(method.name, service.name, file.name, client, request, answer, comments.get(path, ""), is_retried)

    def methods(self, service: ServiceDescriptorProto, rpcs: dict[str, Rpc]) -> list[Method]:
        streamed = {m.name: rpcs[m.name] for m in service.method if m.client_streaming and m.server_streaming}
        made: list[Method] = []
        for method in service.method:
            if method.client_streaming or method.name in WRITTEN_BY_HAND:
                continue
            made.append(self.method(rpcs[method.name], method.server_streaming, streamed))
        paired = {one.stream.name for one in made if isinstance(one, Bulk)}
        for method in service.method:
            if method.client_streaming and method.name not in paired and method.name not in WRITTEN_BY_HAND:
                raise SchemaError(
                    f"{method.name} takes a stream, and no RPC without streams has the same fields: write its method "
                    "by hand, "
                    "and say so in WRITTEN_BY_HAND of overrides.py"
                )
        return made

    def method(self, rpc: Rpc, is_streamed: bool, streamed: dict[str, Rpc]) -> Method:
        override = RPCS.get(rpc.name, Override())
        name, comment = override.name or snake(rpc.name), override.comment or rpc.comment
        if is_streamed:
            raise SchemaError(f"{rpc.name} answers with a stream, for which clients have no methods: answer with pages")
        is_paged = "page_token" in _names(rpc.request) and "next_page_token" in _names(rpc.answer)
        if is_paged and "headline" in _names(rpc.answer):
            return _report(name, comment, rpc)
        if is_paged:
            return Pages(name, comment, rpc, next(field for field in rpc.answer.fields if field.is_repeated))
        same = [other for other in streamed.values() if _names(other.request) == _names(rpc.request)]
        if same:
            return _bulk(rpc, same[0], override)
        if override.parameters:
            chosen = tuple(rpc.request.field(parameter) for parameter in override.parameters)
            return Parameters(name, comment, rpc, chosen, next(iter(rpc.answer.fields), None))
        repeated = [field for field in rpc.answer.fields if field.is_repeated]
        first = next(iter(rpc.request.fields), None)
        is_batch = first and first.is_repeated and first.is_message and list(rpc.answer.fields) == repeated
        if first and is_batch and len(repeated) == 1 and repeated[0].is_message:
            return self.batch(rpc, first, repeated[0], override)
        return Unary(name, comment, rpc)

    def batch(self, rpc: Rpc, items: Field, answers: Field, override: Override) -> Batch:
        within = self.messages[f".{PACKAGE}.{items.type}"].fields
        spread = within[0] if len(within) == 1 and within[0].is_repeated else None
        name = override.name or snake(rpc.name)
        plural = "" if spread else f"{name}s"
        if plural.endswith("ss") and override.plural is None:
            raise SchemaError(f"{rpc.name} is a plural already: say the names of its methods in RPCS of overrides.py")
        answer = self.messages[f".{PACKAGE}.{answers.type}"]
        return Batch(
            name,
            override.comment or of_one(rpc.comment),
            rpc,
            plural=plural if override.plural is None else override.plural,
            plural_comment=override.plural_comment or f"{rpc.comment} All {items.name} are sent in one call.",
            items=items,
            item=items.name.removesuffix("s"),
            spread=spread,
            answers=answers,
            part=answer.field(override.part) if override.part else None,
            answer=answer,
        )


def _report(name: str, comment: str, rpc: Rpc) -> Report:
    rows = [field for field in rpc.answer.fields if field.is_repeated and field.is_message]
    named = next((field.type for field in rpc.request.fields if field.name == "table"), "")
    tables = [
        Pages(
            f"{name}_{'rows' if field is rows[0] else field.name}",
            f"Returns the rows of the table `{field.name}` of {rpc.name}."
            + ("" if field is rows[0] else f" {field.comment}"),
            rpc,
            field,
            f"{snake(named)}_{field.name}".upper() if named else "",
        )
        for field in rows
    ]
    return Report(name, comment, rpc, tuple(tables))


def _bulk(rpc: Rpc, stream: Rpc, override: Override) -> Bulk:
    inputs = [field for field in rpc.request.fields if field.is_input]
    asked, _ = _repeated(rpc.request, "sfixed64")
    answered, others = _repeated(rpc.answer, "sfixed64")
    if [len(inputs), len(asked), len(answered)] != [1, 1, 1] or [field.type for field in others] not in ([], ["bool"]):
        raise SchemaError(
            f"{rpc.name} and {stream.name} have the same fields, and do not ask about many sfixed64 of one shape or "
            "map: "
            "write their method by hand, and say so in WRITTEN_BY_HAND of overrides.py"
        )
    [numbers], [answers] = asked, answered
    for field in (numbers, answers):
        if field.name not in NUMBERS_A_ROW:
            raise SchemaError(
                f"{rpc.name} has many {field.name}: say in NUMBERS_A_ROW of overrides.py how many belong together"
            )
    width, answer_width = NUMBERS_A_ROW[numbers.name], NUMBERS_A_ROW[answers.name]
    if (width, answer_width) not in {("rank", "1"), ("1", "rank"), ("variables", "results")}:
        raise SchemaError(f"{rpc.name} makes {answers.name} of {numbers.name}, which no client can ask in parts")
    return Bulk(
        override.name or snake(rpc.name),
        override.comment or of_one(rpc.comment),
        rpc,
        plural=override.plural or snake(stream.name),
        plural_comment=override.plural_comment or rpc.comment,
        stream=stream,
        subject=inputs[0],
        options=tuple(field for field in rpc.request.fields if field.is_enum),
        numbers=numbers,
        width=width,
        answers=answers,
        answer_width=answer_width,
        flags=next(iter(others), None),
        has_count="count" in _names(rpc.request),
    )


def _repeated(message: Message, kind: str) -> tuple[list[Field], list[Field]]:
    """The repeated fields of a scalar type, and those of other types."""
    repeated = [field for field in message.fields if field.is_repeated]
    return [field for field in repeated if field.type == kind], [field for field in repeated if field.type != kind]


def of_one(comment: str) -> str:
    """A comment about several things, turned to one: `Describes each shape.` becomes `Describes a shape.`"""
    return re.sub(r"\beach (\w)", lambda found: f"{'an' if found[1] in 'aeiou' else 'a'} {found[1]}", comment, count=1)


def snake(name: str) -> str:
    """`DescribeShape` becomes `describe_shape`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def _names(message: Message) -> set[str]:
    return {field.name for field in message.fields}


def _field(field: FieldDescriptorProto, comment: str, file: str, oneofs: Sequence[OneofDescriptorProto]) -> Field:
    is_named = field.type in (field.TYPE_MESSAGE, field.TYPE_ENUM)
    kind = field.type_name.rpartition(".")[2] if is_named else FieldDescriptorProto.Type.Name(field.type)[5:].lower()
    return Field(
        field.name,
        kind,
        field.label == field.LABEL_REPEATED,
        field.type == field.TYPE_MESSAGE,
        field.type == field.TYPE_ENUM,
        comment,
        file,
        field.HasField("oneof_index") and not field.proto3_optional and oneofs[field.oneof_index].name == "subject",
    )
