"""What is written of a module. Matches XLA's HloPrintOptions; options that jaxlib offers have the same names here."""

from __future__ import annotations

from typing import Any, NamedTuple

from xlashape.errors import InvalidArgumentError


class PrintOptions(NamedTuple):
    """The defaults are those of `HloModule::ToString()`, which is what `module.to_string()` of jaxlib gives.

    >>> PrintOptions.named("short_parsable").print_percent
    False
    """

    print_large_constants: bool = False
    """The values of constants of more than ten elements, instead of `{...}`."""
    print_metadata: bool = True
    """`metadata={…}`, and the tables of file names and stack frames in the header."""
    print_backend_config: bool = True
    print_operand_shape: bool = False
    """The shape of each operand before its name."""
    print_operand_names: bool = True
    print_result_shape: bool = True
    print_program_shape: bool = True
    """The parameters and the result of a computation behind its name."""
    print_percent: bool = True
    """`%` before names."""
    print_control_dependencies: bool = True
    print_extra_attributes: bool = True
    """The attributes that an opcode has of its own: `dimensions={1}`, `window={…}`, …"""
    print_ids: bool = True
    """The names of the module and of its computations."""
    compact_operands: bool = False
    """Only the first four operands, and how many more there are."""
    include_layout_in_shapes: bool = True
    canonicalize_instruction_names: bool = False
    """`tmp_0`, `tmp_1`, … in the order printed instead of names."""
    canonicalize_computations: bool = False
    """Computations sorted by their text, the entry last. XLA sorts by content too, but in another order."""
    print_computation_bodies: bool = False
    """Called computations in full where they are called, instead of their names."""
    print_only_essentials: bool = False
    """What decides the program: constants only where they are integers, all 0 or all 1; device lists in full; no infeed and outfeed
    configurations."""
    operand_index_interval: int = 5
    r"""The number of operands from one comment `/*index=5*/` to the next; 0 for no comments."""
    is_in_nested_computation: bool = False
    """Whether a computation is written without its name."""
    indent_amount: int = 0
    """Levels of two spaces before every line."""

    @staticmethod
    def named(style: str) -> PrintOptions:
        """The options of a style: default, short_parsable, canonical or fingerprint. Raises InvalidArgumentError for another name."""
        try:
            return _STYLES[style]
        except KeyError:
            raise InvalidArgumentError(
                f"{style!r} is not a print style; there are {', '.join(_STYLES)}", field="style"
            ) from None

    @staticmethod
    def of(style: str | PrintOptions = "default", **changes: Any) -> PrintOptions:
        """The options of a style with `changes`. Raises InvalidArgumentError for a name that is not an option.

        >>> PrintOptions.of("default", print_metadata=False).print_metadata
        False
        """
        options = style if isinstance(style, PrintOptions) else PrintOptions.named(style)
        if not changes:
            return options
        unknown = changes.keys() - set(PrintOptions._fields)
        if unknown:
            raise InvalidArgumentError(f"{min(unknown)!r} is not a print option", field=min(unknown))
        return options._replace(**changes)


_CANONICAL = PrintOptions(
    print_metadata=False,
    print_backend_config=False,
    print_operand_shape=True,
    print_operand_names=False,
    print_program_shape=False,
    print_percent=False,
    print_control_dependencies=False,
    canonicalize_instruction_names=True,
    print_computation_bodies=True,
    operand_index_interval=0,
)
_STYLES = {
    "default": PrintOptions(),
    "short_parsable": PrintOptions(
        print_large_constants=True,
        print_metadata=False,
        print_program_shape=False,
        print_percent=False,
        print_control_dependencies=False,
        operand_index_interval=0,
    ),
    "canonical": _CANONICAL,
    "fingerprint": _CANONICAL._replace(
        print_only_essentials=True,
        print_ids=False,
        canonicalize_computations=True,
    ),
}
