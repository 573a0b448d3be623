"""Writes docs/xla_functions.md: every function of XLA's ShapeUtil, LayoutUtil and IndexUtil, and what corresponds to it
here.

    python docs/generate_xla_functions.py

A C++ name corresponds to the same name in snake_case unless the tables below say otherwise. A test runs `page()` and
compares.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from types import ModuleType

from xlashape.shape import index_util, layout_util, shape_util

PAGE = Path(__file__).with_name("xla_functions.md")
MODULES: dict[str, ModuleType] = {"ShapeUtil": shape_util, "LayoutUtil": layout_util, "IndexUtil": index_util}

FUNCTIONS = {
    "ShapeUtil": """
        AlignLayouts AppendMajorDimension AppendMinorDimension AppendShapeToTuple ArrayDataSize ArraySize ByteSizeOf
        ByteSizeOfElements ByteSizeOfElementsRecursive ByteSizeOfPrimitiveType ByteSizeOfTupleIndexTable ByteStrides
        ChangeElementType Compatible CompatibleIgnoringElementType CompatibleIgnoringFpPrecision CompatibleKind
        ComplexComponentShape CopyDynamicDimensions CreateDimensionVectorFromShape DecomposeBitcast DecomposeBitcastToTrt
        DeduceTransposeDimensionsForBitcast DeleteDimension DeleteDimensions DeviceShapeIsHostShape DeviceShapeToHostShape
        DimensionsUnmodifiedByReshape DropDegenerateDimensions DynamicArrayShapeIsCompatible DynamicShapeIsCompatible
        ElementCanUpcast ElementHasBitWidth ElementIsComplex ElementIsFloating ElementIsIntegral ElementIsIntegralWithBits
        ElementIsSigned ElementSizeInBits ElementsIn ElementsInRecursive Equal EqualIgnoringElementType
        EqualIgnoringFpPrecision EqualStructure ExtentProduct FilterDimensions FlattenTupleShape ForEachIndex
        ForEachIndexNoStatus ForEachIndexParallel ForEachIndexParallelWithStatus ForEachIndexWithStatus ForEachLeafShape
        ForEachLeafShapeWithStatus ForEachMutableLeafShape ForEachMutableLeafShapeWithStatus ForEachMutableSubshape
        ForEachMutableSubshapePostOrder ForEachMutableSubshapePostOrderWithStatus ForEachMutableSubshapeWithStatus
        ForEachSubshape ForEachSubshapePostOrder ForEachSubshapePostOrderWithStatus ForEachSubshapeWithStatus GetDimension
        GetDimensionNumber GetForEachIndexParallelThreadCount GetLeafCount GetLeafCountTuple GetLeafShapes
        GetMutableSubshape GetNormalizedLogicalTransposeShape GetSubshape GetSubshapeOneIndex GetTupleElementShape
        HasDegenerateDimensions HasPrimitiveType HigherPrecisionElementType HumanString HumanStringWithLayout IndexIsValid
        InsertDimensionAtIndex InsertDimensionsAtIndex InsertedOrDeleted1SizedDimensions IsDecomposableBitcast
        IsEffectiveScalar IsEffectivelyMostMajorDimension IsEmptyTuple IsInitialized IsLeafIndex IsNestedTuple IsPrefix
        IsReshapeOrTransposeBitcast IsScalar IsScalarWithElementType IsZeroElementArray LastDimIsMinorMost MakeBufferShape
        MakeMaybeTupleShape MakeNil MakeOpaqueShape MakeProgramShape MakeScalarShape MakeShape MakeShapeWithDenseLayout
        MakeShapeWithDescendingLayout MakeShapeWithDescendingLayoutAndSamePhysicalLayout MakeShapeWithSparseLayout
        MakeShapeWithStaticDimensions MakeShapeWithType MakeStaticShape MakeTokenShape MakeTupleShape
        MakeTupleShapeWithPtrs MakeValidatedBufferShape MakeValidatedMaybeTupleShape MakeValidatedShape
        MakeValidatedShapeWithDenseLayout MakeValidatedShapeWithDescendingLayout
        MakeValidatedShapeWithDescendingLayoutAndSamePhysicalLayout MakeValidatedShapeWithSparseLayout
        MakeValidatedTupleShape MakeValidatedTupleShapeWithPtrs MoveDimToMajor PackedFactorFor1DInterleavedArray
        PermuteDimensions PermuteDimensionsIgnoringLayout PopulateShape PrependMajorDimension PrintHumanString
        PrintHumanStringWithLayout ReorderLogicalDimensions ReshapeIsBitcast ReshapeLeavesDimensionsUnmodified
        SameDimensions SameElementType SameElementTypeIgnoringFpPrecision SameRank SerializedSize SerializedSizeWithProto
        SliceTuple StaticExtentProduct SubshapeCount TransposeIsBitcast TrueNumDimensions TryGetSubshape TupleElementCount
        UnpackedByteStrides UpdateDynamicDimension UpdateElementSizeInBits UpdateTupleShape ValidateShape
        ValidateShapeWithOptionalLayout
    """.split(),
    "LayoutUtil": """
        AreDimensionsConsecutive ByteStridesIsMajorToMinor ClearLayout ClearTiles CopyLayoutBetweenShapes
        DelinearizeIndexForNestedTiling DimOrdered DimUnique Equal GetDefaultLayoutForR2 GetDefaultLayoutForR3
        GetDefaultLayoutForR4 GetDefaultLayoutForRank GetDefaultLayoutForShape GetDimLevelType GetSplitConfig
        GetWithDefaultLayout HasAnyLayout HasAscendingLayout HasCustomElementSizeInBits HasDescendingLayout HasLayout
        HumanString IsCOO IsCOOArray IsCSC IsCSCArray IsCSR IsCSRArray IsDense IsDenseArray IsMonotonicWithDim0Major
        IsMonotonicWithDim0Minor IsSparse IsSparseArray IsUntiledLayout LayoutsInShapesEqual LinearIndex
        LinearIndexForNestedTiling Major MakeAscendingLayout MakeDescendingLayout MakeLayout MakeLayoutFromMajorToMinor
        MakeLogicalToPhysical MaxElementsInPerSplit MaxSplitSize MemorySpace Minor MinorToMajor MoveDimToMajor
        MoveDimToMinor PrintHumanString SetToDefaultLayout ValidateDimLevel ValidateLayoutForShape ValidateLayoutInShape
    """.split(),
    "IndexUtil": """
        BumpIndices CompareIndices GetDimensionStride IndexInBounds LinearIndexToMultidimensionalIndex
        MultidimensionalIndexToLinearIndex
    """.split(),
}

_PARALLEL = "the library starts no threads: iterate, or use the batch functions of `tiling` on NumPy arrays"
_MUTABLE = "shapes are immutable: build a new one, for example with `update_tuple_shape`"
_SPARSE = "XLA has removed sparse layouts; `D(…)` in old text is ignored, and old protos keep their fields"

# C++ functions whose Python counterpart has another name.
ELSEWHERE = {
    "ShapeUtil": {
        "CreateDimensionVectorFromShape": "`Shape.dimensions`",
        "ForEachIndexNoStatus": "`shape_util.for_each_index`",
        "ForEachIndexWithStatus": "`shape_util.for_each_index`",
        "ForEachLeafShapeWithStatus": "`shape_util.for_each_leaf_shape`",
        "ForEachSubshapeWithStatus": "`shape_util.for_each_subshape`",
        "ForEachSubshapePostOrderWithStatus": "`shape_util.for_each_subshape_post_order`",
        "GetLeafCountTuple": "`shape_util.get_leaf_count`",
        "GetSubshapeOneIndex": "`shape_util.get_tuple_element_shape`",
        "MakeTupleShapeWithPtrs": "`shape_util.make_tuple_shape`",
        "MakeValidatedTupleShapeWithPtrs": "`shape_util.make_validated_tuple_shape`",
        "PrintHumanString": "`shape_util.human_string`",
        "PrintHumanStringWithLayout": "`shape_util.human_string_with_layout`",
        "SerializedSizeWithProto": "`shape_util.serialized_size`",
    },
    "LayoutUtil": {
        "IsDense": "`layout_util.is_dense_array`",
        "PrintHumanString": "`layout_util.human_string`",
    },
    "IndexUtil": {},
}

# C++ functions without a counterpart, and why.
REASONS = {
    "ShapeUtil": {
        "ForEachIndexParallel": _PARALLEL,
        "ForEachIndexParallelWithStatus": _PARALLEL,
        "GetForEachIndexParallelThreadCount": _PARALLEL,
        "ForEachMutableLeafShape": _MUTABLE,
        "ForEachMutableLeafShapeWithStatus": _MUTABLE,
        "ForEachMutableSubshape": _MUTABLE,
        "ForEachMutableSubshapePostOrder": _MUTABLE,
        "ForEachMutableSubshapePostOrderWithStatus": _MUTABLE,
        "ForEachMutableSubshapeWithStatus": _MUTABLE,
        "GetMutableSubshape": _MUTABLE,
        "PopulateShape": _MUTABLE,
        "IsInitialized": "there is no shape without an element type",
        "MakeShapeWithSparseLayout": _SPARSE,
        "MakeValidatedShapeWithSparseLayout": _SPARSE,
    },
    "LayoutUtil": dict.fromkeys(
        [
            "DimOrdered",
            "DimUnique",
            "GetDimLevelType",
            "IsCOO",
            "IsCOOArray",
            "IsCSC",
            "IsCSCArray",
            "IsCSR",
            "IsCSRArray",
            "IsSparse",
            "IsSparseArray",
            "ValidateDimLevel",
        ],
        _SPARSE,
    ),
    "IndexUtil": {},
}

# Differences between the results of a function and of its C++ counterpart, and cases in which they are the same
# although it may surprise.
NOTES = {
    "ShapeUtil": {
        "ArraySize": "Differs: counts the padding of all tiles, and the tail padding of an array without tiles. XLA "
        "counts the padding of the first tile only, and no tail padding without tiles. Equal otherwise",
        "ArrayDataSize": "Differs where `ArraySize` differs: the position of the last element takes all tiles and combined dimensions into account",
        "AppendMajorDimension": "Differs: the dimension numbers of split configs are adjusted. XLA does not adjust them, so that the split "
        "applies to the new dimension",
        "ExtentProduct": "Raises SizeOverflowError where XLA returns true as the second value of a pair",
        "ByteSizeOf": "The default of the pointer size is 8; XLA has no default and requires a pointer size for tuples. `target` gives what the "
        "backend for a device reserves",
        "ForEachIndex": "Raises for a step of 0 and a count above 0, with which XLA repeats the same indices until the visitor stops it",
        "TryGetSubshape": "Raises where XLA returns an error; `get_subshape` raises where XLA aborts",
        "InsertDimensionsAtIndex": "As in XLA, dynamic flags are dropped, and of the layout only the order of the dimensions is kept",
        "MoveDimToMajor": "As in XLA, only the order of the dimensions is kept of the layout",
        "ChangeElementType": "Raises for tokens and opaques; XLA returns scalars",
        "MakeShapeWithType": "Takes a NumPy type",
        "GetNormalizedLogicalTransposeShape": "The permutation of a transpose that moves no dimension is (0,), not empty. Raises for layouts that do not descend. jaxlib has no symbol of this function: its rule is not compared with XLA",
    },
    "LayoutUtil": {
        "LinearIndex": "Differs: takes all tiles and combined dimensions into account. XLA uses the first tile only, and returns an "
        "index of one dimension unchanged. Equal where that is exact",
        "LinearIndexForNestedTiling": "Differs: takes combined dimensions into account",
        "DelinearizeIndexForNestedTiling": "Differs: takes combined dimensions into account; raises for a position in padding",
        "GetSplitConfig": "Takes a shape alone, as XLA since 2025, or a shape and a dimension",
        "IsUntiledLayout": "Takes tiles and physical sizes, as XLA since 2025, or a layout alone. "
        "XLA looks at each tile by itself: it says no of an empty array and of tiles that undo each other",
        "LayoutsInShapesEqual": "Returns False for shapes of different structure, for which XLA aborts",
    },
    "IndexUtil": {
        "BumpIndices": "Returns the next index or None; XLA changes its argument",
    },
}


def snake_case(name: str) -> str:
    """The Python name of a C++ one.

    >>> (
    ...     snake_case("IsMonotonicWithDim0Major"),
    ...     snake_case("PackedFactorFor1DInterleavedArray"),
    ...     snake_case("GetDefaultLayoutForR2"),
    ... )
    ('is_monotonic_with_dim_0_major', 'packed_factor_for_1d_interleaved_array', 'get_default_layout_for_r2')
    """
    name = (
        name.replace("1D", "1d").replace("1Sized", "1_sized").replace("Dim0", "Dim_0_").replace("Deleted1", "Deleted_1")
    )
    name = name.replace("For1d", "For_1d_")
    return re.sub(r"_+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower())


def ours(group: str, name: str) -> str | None:
    """The name of the Python function that has the name of a C++ function in snake_case, or None."""
    found = snake_case(name)
    return found if found in MODULES[group].__all__ else None


def page() -> str:
    """The page."""
    lines = [
        "# XLA's functions, and ours",
        "",
        "Generated by docs/generate_xla_functions.py; a test checks that it is up to date. The tables list every "
        "function of XLA's",
        "`ShapeUtil`, `LayoutUtil` and `IndexUtil` with its Python counterpart, or with the reason why it has no "
        "counterpart. Unless a row says",
        "otherwise, the two return equal results.",
        "",
        "Where a C++ function changes its argument, the Python function returns a new value. Where a C++ function "
        "returns an error status or",
        "aborts the process, the Python function raises. Where a C++ function calls a visitor, the Python function "
        "returns an iterator.",
        "Functions with a dimension number as parameter also accept negative numbers.",
    ]
    for group, module in MODULES.items():
        short = module.__name__.rpartition(".")[2]
        lines += ["", f"## {group}, `xlashape.{short}`", "", "| C++ | Python | |", "|---|---|---|"]
        for name in FUNCTIONS[group]:
            found = ours(group, name)
            if found is not None:
                doc = inspect.getdoc(getattr(module, found)) or ""
                first = re.split(r"(?<=[.:;])\s", " ".join(doc.split("\n\n")[0].split()))[0].rstrip(".:;")
                note = NOTES[group].get(name)
                text = f"{first}. **{note}.**" if note else f"{first}."
                lines.append(_row(name, f"`{short}.{found}`", text))
            elif name in ELSEWHERE[group]:
                lines.append(_row(name, ELSEWHERE[group][name], ""))
            else:
                lines.append(_row(name, "none", f"{REASONS[group][name][0].upper()}{REASONS[group][name][1:]}."))
    return "\n".join(lines) + "\n"


def _row(name: str, answer: str, text: str) -> str:
    return f"| `{name}` | {answer} | {text.replace('|', chr(92) + '|')} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
