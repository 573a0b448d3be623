"""The closed lists of texts in the columns and options of reports. Each is an enum of the service's schema, the same
one in every report.
"""

from __future__ import annotations

from typing import Final

from xlashape.base.vocabulary import Vocabulary

FRAMES: Final = Vocabulary(
    "Frames",
    "What a column `source` names",
    {
        "own": "the line of the user's own code",
        "all": "every frame that called an operation, libraries included",
    },
)
STYLES: Final = Vocabulary(
    "TextStyle",
    "The syntax of a map's text",
    {
        "xla": "as XLA prints maps: `d0 / 8`, `d0 mod 8`",
        "affine": "as MLIR prints affine maps: `d0 floordiv 8`, `d0 mod 8`",
    },
)
DIRECTIONS: Final = Vocabulary(
    "Direction",
    "The direction of a map",
    {
        "output_to_input": "from an element of an output to the elements of an operand that it is computed from",
        "input_to_output": "from an element of an operand to the elements of an output that are computed from it",
    },
)
KNOWLEDGE: Final = Vocabulary(
    "Knowledge",
    "How much a map says about the elements that are accessed",
    {
        "exact": "the elements of the map and no others",
        "every element": "perhaps fewer elements than the map names",
        "unknown": "nothing",
    },
)
"""These three are declared with the maps themselves, in the schema's `types.proto`."""

SIZE_ORDERS: Final = Vocabulary(
    "SizeOrder",
    "The order of the buffers of a program",
    {
        "padding": "those with the most padding first, and of equal padding the largest",
        "bytes": "the largest first",
        "module": "the order of the module",
    },
)
GROUPINGS: Final = Vocabulary(
    "Grouping",
    "What the rows of a group have in common",
    {
        "source": "the line of the program",
        "op_name": "the operation of the program",
        "opcode": "the opcode",
        "computation": "the computation",
        "shape": "the shape",
        "kind": "what the memory is for",
        "space": "the memory space",
        "module": "the module",
        "step": "the step of the profile",
        "mesh_axes": "the axes of the mesh that a group spans",
        "layer": "the layer of the program; layers that differ in their number alone are one",
        "each_layer": "the layer of the program, each by itself",
    },
)
SUBJECTS: Final = Vocabulary(
    "WhySubject",
    "What was asked about",
    {
        "array": "a shape that is an array",
        "tuple": "a shape that is a tuple",
        "instruction": "an instruction",
        "module": "a module",
        "report": "a report about memory that has run out",
        "shapes": "a text with shapes in it",
    },
)
PADDING_CAUSES: Final = Vocabulary(
    "WhyCauseKind",
    "What makes a buffer larger than its elements",
    {
        "tile": "sizes are rounded up to those of a tile",
        "tail": "the end of the buffer is rounded up",
        "element size": "the layout gives an element more bits than its type has",
        "packing": "elements of less than a byte are packed, or take a byte each",
        "metadata": "the layout puts the sizes of dynamic dimensions before the elements",
        "dynamic sizes": "the sizes of dynamic dimensions stand behind the elements",
        "tuple table": "a tuple has a table of pointers",
        "nested scalar": "a scalar in a tuple is rounded up",
        "opaque": "an opaque has a pointer",
    },
)
SUGGESTED_CHANGES: Final = Vocabulary(
    "WhySuggestionKind",
    "A change that would make a buffer smaller",
    {
        "order": "another order of dimensions",
        "merge": "dimensions that are merged",
        "split": "a dimension that is split",
        "reshape": "another shape of the same elements",
        "tiles": "other tiles",
        "packing": "elements that are packed",
        "round": "a size that is rounded",
        "type": "another element type",
    },
)
ALIASES: Final = Vocabulary(
    "AliasKind",
    "Whether an output takes over the memory of a parameter",
    {"must-alias": "always", "may-alias": "if the caller gives the argument away"},
)
BUFFER_KINDS: Final = Vocabulary(
    "BufferKind",
    "What the memory of a value is for",
    {
        "parameter": "a parameter of the program",
        "temporary": "a value within the program",
        "output": "a part of the result",
        "constant": "a constant",
    },
)
PEAK_CHANGES: Final = Vocabulary(
    "PeakChangeKind",
    "A change that would make a peak smaller",
    {
        "donate": "an argument is given away",
        "recompute": "a value is computed again instead of kept",
        "precision": "a value has a smaller element type",
        "padding": "a value has less padding",
        "copy": "a copy is left out",
        "smaller": "a value is made smaller",
        "carry": "a loop carries an array that it takes apart and stacks again",
    },
)
CHANGE_KINDS: Final = Vocabulary(
    "ChangeKind",
    "How an instruction differs between two modules",
    {
        "added": "only the second module has it",
        "removed": "only the first module has it",
        "changed": "both have it, and it differs",
        "moved": "both have it, at another place",
    },
)
COPY_CAUSES: Final = Vocabulary(
    "CopyCauseKind",
    "Why data is moved",
    {
        "relayout": "two neighbours want other layouts",
        "copy-insertion": "a buffer that is still wanted would be overwritten",
        "memory-space": "into or out of another memory",
        "sharding": "left in the place of an annotation",
        "transpose": "the program asks for a transpose",
        "reshape": "the program asks for a reshape that is no bitcast",
        "slice": "the program or the partitioner takes a part of an array",
        "pad": "the program or the partitioner pads an array",
        "concatenate": "the program puts arrays into one",
        "reverse": "the program reverses an array",
        "copy": "a fusion computes, and copies an array on the way",
    },
)
TIMES_BOUNDS: Final = Vocabulary(
    "TimesBound",
    "How exactly a number of executions is known",
    {
        "exact": "exactly",
        "at least": "a loop of unknown length counts once",
        "at most": "a branch counts as if it were always taken",
        "unknown": "both a loop of unknown length and a branch",
    },
)
COPY_EDITS: Final = Vocabulary(
    "CopyEditKind",
    "An edit of a program that removes copies",
    {
        "input-layout": "another layout of a parameter",
        "output-layout": "another layout of an output",
        "input-order": "a transposed argument",
        "output-order": "a transposed result",
        "donate": "an argument that is given away",
        "output-first": "an output that is returned before the others",
        "carry": "an array that a loop carries instead of taking it apart and stacking it again",
    },
)
ACCESSES: Final = Vocabulary(
    "AccessKind",
    "How the elements of an operand are read",
    {
        "streamed": "each element is read for one element of the output",
        "broadcast": "each element is read for several elements of the output, each of which reads no other",
        "reduced": "an output combines many elements, each of which is read for no other output",
        "reused": "an output combines many elements, each of which is read for other outputs too, as in contractions",
        "windowed": "an output combines the elements of a window, and windows overlap or lie side by side",
        "gathered": "values say for each element of the output what is read",
        "sorted": "the elements of a line decide where each of them goes",
        "unknown": "which elements are read for an output is not known, as for custom calls",
        "not read": "nothing is read",
        "blocks": "a kernel copies the operand block by block",
    },
)
RELAYOUTS: Final = Vocabulary(
    "Relayout",
    "What elements change in the tiles of a TPU between operand and output",
    {
        "none": "nothing",
        "lanes": "their lanes",
        "sublanes": "their sublanes",
        "lanes and sublanes": "both",
    },
)
COST_BASES: Final = Vocabulary(
    "CostBasis",
    "What FLOPs are known from",
    {
        "counted": "the module: its shapes and attributes",
        "stated": "what a kernel, its configuration or a model of the target states",
        "unknown": "the FLOPs are not known",
    },
)
BOUNDS: Final = Vocabulary(
    "Bound",
    "What limits an instruction on the target",
    {
        "compute": "arithmetic",
        "memory": "the bandwidth of the memory",
        "communication": "the links to other devices: the instruction is a collective",
    },
)
COLLECTIVE_KINDS: Final = Vocabulary(
    "CollectiveKind",
    "What a collective does",
    {
        "all-gather": "every device gets the parts of all devices of its group",
        "all-reduce": "every device gets the sum, or another reduction, of what the devices of its group hold",
        "reduce-scatter": "every device gets its part of that sum",
        "all-to-all": "every device sends another part to each device of its group",
        "ragged-all-to-all": "an all-to-all with parts whose sizes are known when the program runs",
        "collective-permute": "devices send what they hold to one other device each",
        "collective-broadcast": "the first device of a group sends what it holds to the others",
        "collective-reduce": "one device of a group gets the sum",
        "send": "a device sends to another one, which has a recv",
        "recv": "a device receives from another one, which has a send",
    },
)
GROUP_MODES: Final = Vocabulary(
    "GroupMode",
    "What the numbers in the groups of a collective mean",
    {
        "cross_replica": "replicas; the same group for every partition",
        "cross_partition": "partitions; the same group for every replica",
        "cross_replica_and_partition": "replicas, with all of their partitions",
        "flattened": "devices",
    },
)
COLLECTIVE_FINDINGS: Final = Vocabulary(
    "CollectiveFindingKind",
    "Why collectives send more than they have to, or more often",
    {
        "repeated": "the same operand is exchanged again",
        "invariant": "every iteration of a loop exchanges the same value",
        "accumulated": "every iteration of a loop adds up what is reduced, and only the sum is used",
        "wide": "the operand was converted to a wider type just before",
        "small": "several small ones do not depend on each other, and one could do",
        "sliced": "each device uses only a part of the result, and another collective brings it that part",
        "undivided": "each device computes parts of sums of the whole batch, which is divided as an argument",
        "unread": "nothing reads what the last iteration of a loop receives",
        "argument": "an argument is divided otherwise than its first use wants",
    },
)
VERDICTS: Final = Vocabulary(
    "Verdict",
    "Whether two programs compute the same",
    {
        "equal": "they do, with the same roundings",
        "equal over the reals": "they do as formulas; rounding, overflow and NaN may differ",
        "differs": "ordinary inputs show that they do not",
        "unknown": "neither could be shown",
    },
)
MEASURES: Final = Vocabulary(
    "Measure",
    "What a finding costs a part of",
    {
        "peak": "the bytes at the peak of memory",
        "traffic": "the bytes that instructions read and write in a run",
        "least time": "the least time of a run on the target",
        "communication": "the bytes that the busiest device sends in a run",
        "collectives": "how often collectives run",
        "FLOPs": "the FLOPs of a run",
        "measured time": "the time of instructions in the profile",
    },
)
FINDINGS: Final = Vocabulary(
    "FindingKind",
    "The report that has the details of a finding",
    {
        "memory": "what lives at the peak",
        "copies": "what only moves data",
        "reads": "what is read, and how well",
        "cost": "what is computed and moved",
        "collectives": "what is sent between devices",
        "profile": "what took the time",
    },
)
