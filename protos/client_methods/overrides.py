"""What the descriptors do not say about the methods of the clients. A new RPC of a usual kind needs nothing here.

Texts are those of comments. In them `{map}` stands for the class that evaluates a map without the server, `{not_found}`
for the code of an error.
"""

from __future__ import annotations

from dataclasses import dataclass

SERVICES = {
    "ShapeService": "shapes",
    "HloService": "modules",
    "IndexingService": "indexing",
    "ReportService": "reports",
    "ViewService": "views",
}
"""Service → the name of its generated client in ours, in the order of the methods."""

WRITTEN_BY_HAND = {
    "UploadModule": "one method computes the digest, asks whether the server has the module, and sends it in one message or in parts",
    "PutModule": "upload_module calls it",
}
"""RPC → why the clients have no method that is written for it alone."""

NUMBERS_A_ROW = {"indices": "rank", "positions": "1", "points": "variables", "results": "results"}
"""Name of a field of many numbers → how many of them belong together: `rank` of the shape, `variables` or `results` of
the map.
"""


@dataclass(frozen=True)
class Override:
    """What the schema does not say of one RPC. Every field has a default that follows from the descriptors."""

    name: str = ""
    """The method's name in snake_case."""
    plural: str | None = None
    """The name of the method for many questions in one call. Empty: there is none, as for items that consist of one
    repeated field.
    """
    parameters: tuple[str, ...] = ()
    """Of a call whose request is made of parameters: the fields that they are."""
    part: str = ""
    """Of a call that answers each item: the field of an answer that the method returns."""
    comment: str = ""
    """Of the method, or of the one for one question."""
    plural_comment: str = ""
    """Of the method for many questions."""


RPCS = {
    "ByteSizes": Override(name="instruction_sizes"),
    "GetModule": Override(
        parameters=("name",),
        comment="Describes a stored module by its name, `modules/{sha256}`. The code of the error is {not_found} if "
        "the server does not have it, or no longer.",
    ),
    "DeleteModule": Override(parameters=("name",)),
    "LinearIndex": Override(
        comment="Computes the position in the buffer, in elements, of the element at an index.",
        plural_comment=(
            "Computes the positions of the elements at any number of indices, which stand one after another in "
            "`indices`, each with one number for every"
            " dimension of the shape. Many indices are sent {in_parts}. It is not for scalars, whose indices have no "
            "numbers."
        ),
    ),
    "MultiIndex": Override(
        comment="Computes the index of the element at a position of the buffer; {nothing} if the position is padding.",
        plural_comment=(
            "Computes the indices of the elements at any number of positions, one after another, and for each position "
            "whether it holds an element. The"
            " numbers of a position that is padding are -1. Many positions are sent {in_parts}."
        ),
    ),
    "ParseMap": Override(plural=""),
    "SimplifyMap": Override(plural="", part="map"),
    "ComposeMaps": Override(
        comment="Composes two or more maps into one. The first is applied first, and each next one to the results of "
        "the one before it.",
    ),
    "EvaluateMap": Override(
        plural="evaluate_map",
        plural_comment=(
            "Lets the server evaluate a map at any number of points, which stand one after another, each with one "
            "number for every variable. It returns"
            " the results one after another, 0 for points outside the domain, and for each point whether it is in the "
            "domain. Many points are sent"
            " {in_parts}. A map without variables is not for this method, since its points have no numbers. {map} does "
            "the same without the server."
        ),
    ),
}
"""Name of an RPC → what the schema does not say of it."""
