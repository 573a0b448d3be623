"""Closed lists of texts, each of which is an enum of the service's schema."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from xlashape.errors import InvalidArgumentError


class Vocabulary(tuple[str, ...]):  # noqa: SLOT001 - a tuple has no slots of more than zero length
    """Texts that a column or an option can have, and no others. The enum of the schema has the number of a text from
    its place here, counted from 1; 0 stands for none of them. A new text is appended.

    >>> bounds = Vocabulary("Bound", "What limits an instruction", {"compute": "arithmetic", "memory": "memory"})
    >>> bounds, bounds.enum, bounds.member("memory")
    (('compute', 'memory'), 'Bound', 'BOUND_MEMORY')
    """

    enum: str
    """The name of the enum."""
    meaning: str
    """What the texts tell apart, in words."""
    meanings: Mapping[str, str]
    """Each text of the enum → its meaning."""

    def __new__(
        cls, enum: str, meaning: str, meanings: Mapping[str, str], texts: Iterable[str] | None = None
    ) -> Vocabulary:
        made = super().__new__(cls, meanings if texts is None else texts)
        made.enum, made.meaning, made.meanings = enum, meaning, meanings
        return made

    def among(self, *texts: str) -> Vocabulary:
        """Some texts of the same enum, for a column or an option that does not have all of them."""
        return Vocabulary(self.enum, self.meaning, self.meanings, texts)

    def member(self, text: str) -> str:
        """The name of the enum's value for a text; for "" that of 0."""
        words = "".join([f"_{each}" if each.isupper() else each for each in self.enum]).lstrip("_")
        value = "".join([each if each.isalnum() else "_" for each in text or "unspecified"])
        return f"{words}_{value}".upper()

    def number(self, text: str) -> int:
        """The number of the enum's value for a text; 0 for "". ValueError for a text that the enum does not have."""
        return [*self.meanings].index(text) + 1 if text else 0

    def text(self, number: int) -> str | None:
        """The text of a number; None for 0. A number of a later version is `unknown_77`."""
        texts = [None, *self.meanings]
        return texts[number] if 0 <= number < len(texts) else f"unknown_{number}"

    def check(self, value: str, field: str) -> str:
        """`value`, if it is one of the texts. InvalidArgumentError otherwise, with the path `field`."""
        if value not in self:
            raise InvalidArgumentError(f"expected one of {', '.join(self)}, found {value!r:.60}", field=field)
        return value
