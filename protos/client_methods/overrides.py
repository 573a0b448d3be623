"""What the descriptors do not say about the methods of the clients. A new RPC of a usual kind needs nothing here.

In comments `{map}` stands for the class that evaluates a map without the server, `{not_found}` for the code of an
error, `{nothing}` for the language's null, and `{in_parts}` for the way in which many numbers are sent.
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
"""Service → the name that our client gives to the service's generated client. Methods are written in this order."""

WRITTEN_BY_HAND = {
    "UploadModule": "one method computes the digest, asks whether the server has the module, and sends it in one message "
    "or in parts: transfers.py, and by hand in Go and Rust",
    "PutModule": "upload_module calls it",
}
"""RPC without a generated method → why its method is written by hand, or why it has none."""

NUMBERS_A_ROW = {"indices": "rank", "positions": "1", "points": "variables", "results": "results"}
"""Name of a field of many numbers → how many of them belong to one question: the `rank` of the shape, or the number of
the map's `variables` or `results`.
"""


@dataclass(frozen=True)
class Override:
    """What is set for one RPC. With the defaults, everything follows from the descriptors."""

    name: str = ""
    """The method's name in snake_case."""
    plural: str | None = None
    """The name of the method for many questions in one call. Empty: there is no such method."""
    parameters: tuple[str, ...] = ()
    """The fields of the request that the method takes as parameters. Empty: the method takes the whole request."""
    part: str = ""
    """For an RPC that answers each item: the field of the answer that the method returns. Empty: the whole answer."""
    comment: str = ""
    """The comment of the method, or of the method for one question."""
    plural_comment: str = ""
    """The comment of the method for many questions."""


RPCS = {
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
            "so for maps that fit int64 without the server."
        ),
    ),
}
"""Name of an RPC → what is set for it."""
