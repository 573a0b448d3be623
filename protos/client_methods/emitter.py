"""The base class of the languages, `Emitter`, and the spellings of names."""

from __future__ import annotations

import re
import textwrap
from abc import ABC, abstractmethod
from typing import ClassVar

from google.protobuf.descriptor_pb2 import FileDescriptorProto

from client_methods.model import Batch, Bulk, Method, Pages, Parameters, Report, Rpc, Unary

GENERATOR = "protos/client_methods"


def pascal(name: str) -> str:
    """`describe_shape` becomes `DescribeShape`."""
    return "".join(word.capitalize() for word in name.split("_"))


def camel(name: str) -> str:
    """`describe_shape` becomes `describeShape`."""
    return name[0] + pascal(name)[1:]


def phrase(comment: str) -> str:
    """The first sentence of a comment as a part of another one: `An array. It has a layout.` becomes `an array`."""
    sentence = re.split(r"\.(?:\s|$)", comment, maxsplit=1)[0]
    return sentence if sentence[1:2].isupper() else sentence[:1].lower() + sentence[1:]


class Emitter(ABC):
    """Writes the methods of one language. The text is formatted as the language's own tool formats it."""

    folder: ClassVar[str]
    """The folder, below the checkout, from which the paths in `files` begin."""
    comment_columns: ClassVar[int]
    """The most characters of a line of a comment, indentation included."""
    words: ClassVar[dict[str, str]]
    """What the language writes for `{map}`, `{nothing}`, `{in_parts}` and `{not_found}` in comments."""
    after_pages: ClassVar[str]
    """The sentence that is added to the comment of a method that returns the items of pages."""

    def __init__(self, methods: list[Method], retried: list[Rpc], files: list[FileDescriptorProto]) -> None:
        self.methods = methods
        self.schema_files = files
        self.retried = retried
        """The RPCs that are sent again while the server is unavailable."""
        self._named = {method.rpc.name: method.name for method in methods}
        self._named |= {method.stream.name: method.plural for method in methods if isinstance(method, Bulk)}

    def service_config(self, attempts: str, separator: str) -> str:
        """gRPC's service config, as JSON: calls go to all servers in turn, and those in `retried` are sent up to
        `attempts` times. `separator` stands between the lines.
        """
        names = (f'{{"service": "{rpc.path.partition("/")[0]}", "method": "{rpc.name}"}}' for rpc in self.retried)
        lines = [
            '{"loadBalancingConfig": [{"round_robin": {}}],',
            f'"methodConfig": [{{"retryPolicy": {{"maxAttempts": {attempts}, "initialBackoff": "0.1s", "maxBackoff": "2s",',
            '"backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]},',
            f'"name": [{f",{separator}".join(names)}]}}]}}',
        ]
        return separator.join(lines)

    @abstractmethod
    def files(self) -> dict[str, str]:
        """Path of a file → its text. The first line of a file says that it is generated."""

    @abstractmethod
    def reference(self, name: str) -> str:
        """How a comment refers to a method."""

    @abstractmethod
    def unary(self, method: Unary) -> list[str]:
        """The lines of a method of this kind: an empty line, the comment, the code. The next five functions do the same
        for the other kinds; a kind may have two methods.
        """

    @abstractmethod
    def parameters(self, method: Parameters) -> list[str]: ...

    @abstractmethod
    def batch(self, method: Batch) -> list[str]: ...

    @abstractmethod
    def pages(self, method: Pages) -> list[str]: ...

    @abstractmethod
    def bulk(self, method: Bulk) -> list[str]: ...

    def lines(self, method: Method) -> list[str]:
        """The lines of a method of any kind."""
        match method:
            case Report():
                return [*self.unary(method), *[line for table in method.tables for line in self.pages(table)]]
            case Unary():
                return self.unary(method)
            case Parameters():
                return self.parameters(method)
            case Batch():
                return self.batch(method)
            case Pages():
                return self.pages(method)
            case Bulk():
                return self.bulk(method)
            case _:
                raise TypeError(f"no language knows methods of the kind {type(method).__name__}")

    def comment(self, text: str) -> str:
        """A comment of the schema in the words of the language: placeholders replaced, RPCs as names of methods."""
        text = re.sub(r"\{(\w+)\}", lambda found: self.words.get(found[1], found[0]), text)
        # RPCs whose names are one word, such as Map and Reads, are left: they may be words of the sentence.
        rpcs = "|".join(name for name in self._named if re.search("(?<!^)[A-Z]", name))
        return re.sub(rf"\b({rpcs})\b", lambda found: self.reference(self._named[found[1]]), text)

    def wrapped(self, text: str, prefix: str) -> list[str]:
        """The lines of a comment, each after `prefix`."""
        lines: list[str] = []
        for paragraph in text.split("\n\n"):
            if lines:
                lines.append(prefix.rstrip())
            columns = self.comment_columns - len(prefix)
            filled = textwrap.wrap(paragraph, columns, break_long_words=False, break_on_hyphens=False)
            lines += [prefix + line for line in filled]
        return lines
