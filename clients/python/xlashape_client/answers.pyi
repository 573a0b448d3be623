"""The answers of reports from a server: an attribute for each total, table and column.

Written by protos/report_types.py.
"""

from collections.abc import Sequence

from xlashape.reports.messages import Received, ReceivedRow
from xlashape.reports.structures import ReceivedIndexing, ReceivedTileMaps
from xlashape.symbolic import IndexingMap


class ReceivedSummaryRow(ReceivedRow):
    share: float | None
    measure: str
    kind: str
    text: str
    fix: str | None
    bytes: int | None
    times: int
    where: str
    instruction: str | None
    source: str | None

class ReceivedSummaryFineRow(ReceivedRow):
    kind: str
    text: str

class ReceivedSummary(Received[ReceivedSummaryRow]):
    module: str
    instructions: int
    argument_bytes: int
    peak_bytes: int | None
    is_estimate: bool
    bytes: int | None
    flops: int | None
    least_time: float | None
    sent_bytes: int
    target: str | None
    rows: Sequence[ReceivedSummaryRow]
    fine: Sequence[ReceivedSummaryFineRow]

class ReceivedCostRow(ReceivedRow):
    name: str
    opcode: str
    computation: str
    times: int
    is_exact: bool
    flops: int | None
    basis: str
    transcendentals: int
    bytes: int
    bytes_read: int | None
    bytes_written: int | None
    padded_bytes: int | None
    main_bytes: int | None
    spaces: dict[int, int]
    grid: list[int]
    blocks: list[str]
    block_bytes: int | None
    intensity: float | None
    bound: str | None
    least_time: float | None
    communication_time: float | None
    share: float | None
    source: str
    op_name: str

class ReceivedCostSpacesRow(ReceivedRow):
    space: int
    bytes_read: int
    bytes_written: int
    padded_bytes: int

class ReceivedCostByRow(ReceivedRow):
    group: str | None
    instructions: int | None
    flops: int | None
    transcendentals: int | None
    bytes: int | None
    padded_bytes: int | None
    main_bytes: int | None
    least_time: float | None
    bound: str | None
    share: float | None

class ReceivedCost(Received[ReceivedCostRow]):
    name: str
    flops: int
    transcendentals: int
    bytes: int
    bytes_read: int | None
    bytes_written: int | None
    padded_bytes: int | None
    main_bytes: int | None
    intensity: float | None
    target: str | None
    least_time: float | None
    communication_time: float | None
    is_exact: bool
    unknown_loops: int
    conditionals: int
    unknown_instructions: int
    rows: Sequence[ReceivedCostRow]
    spaces: Sequence[ReceivedCostSpacesRow]
    by: Sequence[ReceivedCostByRow]

class ReceivedSizeRow(ReceivedRow):
    name: str | None
    computation: str | None
    opcode: str | None
    index: str | None
    shape: str | None
    element_bytes: int | None
    bytes: int | None
    padding_bytes: int | None
    factor: float | None
    times: int
    source: str | None
    op_name: str | None
    error: str | None

class ReceivedSizeByRow(ReceivedRow):
    group: str | None
    element_bytes: int | None
    bytes: int | None
    padding_bytes: int | None
    count: int | None

class ReceivedSize(Received[ReceivedSizeRow]):
    about: str | None
    target: str | None
    computation: str | None
    peak_bytes: int | None
    peak_is_estimate: bool | None
    count: int
    of_count: int
    element_bytes: int
    bytes: int
    padding_bytes: int
    padding_share: float | None
    shared_count: int
    fused_count: int
    buffers: Sequence[ReceivedSizeRow]
    by: Sequence[ReceivedSizeByRow]

class ReceivedWhyRow(ReceivedRow):
    name: str | None
    computation: str | None
    opcode: str | None
    index: str | None
    shape: str | None
    element_bytes: int | None
    bytes: int | None
    padding_bytes: int | None
    factor: float | None
    times: int
    source: str | None
    op_name: str | None
    error: str | None

class ReceivedWhyCausesRow(ReceivedRow):
    name: str
    kind: str
    text: str
    bytes: int
    share: float | None
    saved_bytes: int
    dimensions: list[str]

class ReceivedWhySuggestionsRow(ReceivedRow):
    name: str
    kind: str
    jax: str
    text: str
    shape: str
    bytes: int
    saved_bytes: int
    is_lossless: bool

class ReceivedWhyDonatedRow(ReceivedRow):
    output_index: str
    instruction: str
    parameter: str
    kind: str
    bytes: int | None

class ReceivedWhyStatedRow(ReceivedRow):
    group: str
    name: str
    text: str
    bytes: int | None
    detail: str

class ReceivedWhy(Received[ReceivedWhyRow]):
    kind: str
    about: str | None
    target: str | None
    peak_bytes: int | None
    peak_is_estimate: bool | None
    count: int
    element_bytes: int
    bytes: int
    padding_bytes: int
    factor: float | None
    note: str
    left_out: list[str]
    agrees: bool | None
    must_go_bytes: int | None
    unread: list[str]
    buffers: Sequence[ReceivedWhyRow]
    causes: Sequence[ReceivedWhyCausesRow]
    suggestions: Sequence[ReceivedWhySuggestionsRow]
    donated: Sequence[ReceivedWhyDonatedRow]
    stated: Sequence[ReceivedWhyStatedRow]

class ReceivedMemoryRow(ReceivedRow):
    name: str
    shape_index: str | None
    opcode: str | None
    shape: str | None
    bytes: int
    padding_bytes: int | None
    kind: str
    space: int
    allocation: int | None
    offset: int | None
    begin: int
    end: int
    computation: str | None
    op_name: str | None
    source: str | None

class ReceivedMemoryTimelineRow(ReceivedRow):
    step: int
    name: str
    computation: str | None
    bytes: int
    parameter_bytes: int
    temporary_bytes: int
    output_bytes: int
    constant_bytes: int
    spaces: dict[int, int]
    is_peak: bool

class ReceivedMemorySpacesRow(ReceivedRow):
    space: int
    name: str | None
    peak_bytes: int
    argument_bytes: int
    output_bytes: int
    alias_bytes: int
    temp_bytes: int
    constant_bytes: int
    total_allocation_bytes: int

class ReceivedMemoryByRow(ReceivedRow):
    group: str | None
    bytes: int | None
    share: float | None
    padding_bytes: int | None
    buffers: int | None

class ReceivedMemoryAtRow(ReceivedRow):
    name: str
    shape_index: str | None
    opcode: str | None
    shape: str | None
    bytes: int
    padding_bytes: int | None
    kind: str
    space: int
    allocation: int | None
    offset: int | None
    begin: int
    end: int
    computation: str | None
    op_name: str | None
    source: str | None

class ReceivedMemoryFitRow(ReceivedRow):
    change: str
    new_peak_bytes: int
    saved_bytes: int
    lower_bytes: int
    upper_bytes: int | None
    together_bytes: int | None
    is_exact: bool
    fits: bool | None
    verdict: str | None
    flops: int | None
    name: str | None
    text: str

class ReceivedMemory(Received[ReceivedMemoryRow]):
    peak_bytes: int
    argument_bytes: int
    output_bytes: int
    alias_bytes: int
    temp_bytes: int
    constant_bytes: int
    is_estimate: bool
    target: str | None
    lower_bytes: int
    upper_bytes: int | None
    peak_instruction: str | None
    peak_step: int
    unpadded_peak_bytes: int | None
    total_allocation_bytes: int
    indefinite_bytes: int
    fragmentation_bytes: int | None
    fragmentation: float | None
    host_argument_bytes: int
    host_output_bytes: int
    host_alias_bytes: int
    host_temp_bytes: int
    missing_bytes: int | None
    peak_buffers: Sequence[ReceivedMemoryRow]
    timeline: Sequence[ReceivedMemoryTimelineRow]
    spaces: Sequence[ReceivedMemorySpacesRow]
    by: Sequence[ReceivedMemoryByRow]
    at: Sequence[ReceivedMemoryAtRow]
    fit: Sequence[ReceivedMemoryFitRow]

class ReceivedCollectivesRow(ReceivedRow):
    name: str
    opcode: str
    kind: str
    group_size: int
    groups: int
    mesh_axes: list[str]
    mode: str
    bytes: int
    sent_bytes: int
    received_bytes: int
    sent_all: int
    received_all: int
    at_most: bool
    times: int
    is_exact: bool
    branch: bool
    is_asynchronous: bool
    between: list[str]
    between_flops: int | None
    between_bytes: int | None
    between_time: float | None
    least_time: float | None
    exposed: float | None
    spmd: bool
    before: str | None
    after: str | None
    cause: str
    suggestion: str | None
    source: str
    op_name: str
    names: list[str]
    computation: str

class ReceivedCollectivesByRow(ReceivedRow):
    group: str
    count: int
    executions: int
    sent_bytes: int
    received_bytes: int
    least_time: float | None
    exposed: float | None

class ReceivedCollectivesFindingsRow(ReceivedRow):
    kind: str
    saved_bytes: int
    count: int
    text: str
    fix: str
    names: list[str]

class ReceivedCollectives(Received[ReceivedCollectivesRow]):
    module: str
    count: int
    executions: int
    sent_bytes: int
    received_bytes: int
    least_time: float | None
    exposed: float | None
    devices: int
    mesh: str | None
    target: str | None
    is_exact: bool
    rows: Sequence[ReceivedCollectivesRow]
    by: Sequence[ReceivedCollectivesByRow]
    findings: Sequence[ReceivedCollectivesFindingsRow]

class ReceivedDiffRow(ReceivedRow):
    kind: str
    what: list[str]
    opcode: str
    a: str | None
    b: str | None
    times: int
    delta_bytes: int
    delta_padding_bytes: int
    delta_bytes_read: int
    delta_bytes_written: int
    delta_copies: int
    delta_copy_bytes: int
    delta_collectives: int
    delta_collective_bytes: int
    delta_fusions: int
    delta_instructions: int
    delta_flops: int | None
    delta_segments: float | None
    runs: int
    details: str
    shape: str | None
    source: str | None
    op_name: str | None
    source_a: str | None
    op_name_a: str | None
    source_b: str | None
    op_name_b: str | None

class ReceivedDiffMeasuresRow(ReceivedRow):
    name: str
    unit: str
    a: int | None
    b: int | None
    delta: int | None
    note: str | None

class ReceivedDiffPeakRow(ReceivedRow):
    delta_bytes: int
    layer: str
    a_bytes: int
    b_bytes: int
    a_buffers: int
    b_buffers: int
    largest: str
    source: str | None

class ReceivedDiffByRow(ReceivedRow):
    group: str | None
    times: int | None
    delta_bytes: int | None
    delta_padding_bytes: int | None
    delta_bytes_read: int | None
    delta_bytes_written: int | None
    delta_copies: int | None
    delta_copy_bytes: int | None
    delta_collectives: int | None
    delta_collective_bytes: int | None
    delta_fusions: int | None
    delta_instructions: int | None
    delta_flops: int | None

class ReceivedDiff(Received[ReceivedDiffRow]):
    same: bool
    fingerprint_a: str
    fingerprint_b: str
    ignored: int
    delta_bytes: int | None
    delta_padding_bytes: int | None
    delta_bytes_read: int | None
    delta_bytes_written: int | None
    delta_copies: int | None
    delta_copy_bytes: int | None
    delta_collectives: int | None
    delta_collective_bytes: int | None
    delta_fusions: int | None
    delta_instructions: int | None
    delta_flops: int | None
    delta_peak_bytes: int | None
    changes: Sequence[ReceivedDiffRow]
    measures: Sequence[ReceivedDiffMeasuresRow]
    peak: Sequence[ReceivedDiffPeakRow]
    by: Sequence[ReceivedDiffByRow]

class ReceivedEquivalentRow(ReceivedRow):
    pass_name: str
    verdict: str
    instruction: str | None
    source: str | None
    file: str
    reasons: list[str]

class ReceivedEquivalent(Received[ReceivedEquivalentRow]):
    verdict: str
    unequal_count: int
    is_sampled: bool
    first: str | None
    output: int | None
    element: list[int]
    device: int | None
    a_value: str | None
    b_value: str | None
    instruction: str | None
    source: str | None
    reasons: list[str]
    stages: Sequence[ReceivedEquivalentRow]

class ReceivedCopiesRow(ReceivedRow):
    name: str
    opcode: str
    cause_kind: str
    total_bytes: int | None
    bytes: int | None
    bytes_read: int | None
    bytes_written: int | None
    times: int
    times_bound: str
    from_layout: str | None
    to_layout: str | None
    shape: str | None
    forced_by: str | None
    producer: str
    consumer: str | None
    source: str | None
    op_name: str | None
    pass_name: str | None
    inferred_pass: str | None
    is_inferred: bool
    stage: str | None
    computation: str
    mover: str
    movers: list[str]
    computes: bool
    cause: str
    suggestion: str | None
    saved_bytes: int | None
    is_exact: bool | None

class ReceivedCopiesCausesRow(ReceivedRow):
    cause_kind: str
    copies: int
    total_bytes: int
    share: float | None
    saved_bytes: int

class ReceivedCopiesSuggestionsRow(ReceivedRow):
    text: str
    kinds: list[str]
    saved_bytes: int
    copies: int
    removes: list[str]
    is_exact: bool
    edits: list[str]

class ReceivedCopiesByRow(ReceivedRow):
    group: str | None
    copies: int | None
    total_bytes: int | None
    saved_bytes: int | None

class ReceivedCopies(Received[ReceivedCopiesRow]):
    module: str
    copies: int
    total_bytes: int
    saved_bytes: int
    has_pass_dumps: bool
    rows: Sequence[ReceivedCopiesRow]
    causes: Sequence[ReceivedCopiesCausesRow]
    suggestions: Sequence[ReceivedCopiesSuggestionsRow]
    by: Sequence[ReceivedCopiesByRow]

class ReceivedMapRow(ReceivedRow):
    instruction: str
    computation: str
    opcode: str
    direction: str
    output: int | None
    operand: int | None
    operand_name: str | None
    leaf: int | None
    knowledge: str | None
    map: str | None
    runtime: list[str]
    error: str | None
    indexing: ReceivedIndexing | None

class ReceivedMap(Received[ReceivedMapRow]):
    direction: str
    instruction_count: int
    map_count: int
    unknown_count: int
    error_count: int
    maps: Sequence[ReceivedMapRow]

class ReceivedTileRow(ReceivedRow):
    operand: int
    operand_name: str
    leaf: int
    map: str
    is_tile: bool | None
    offsets: list[int]
    sizes: list[int]
    strides: list[int]
    offset_map: str | None
    size_map: str | None
    stride_map: str | None
    constraints: str | None
    symbolic: str | None
    indexing: ReceivedIndexing | None
    tile: ReceivedTileMaps | None

class ReceivedTile(Received[ReceivedTileRow]):
    instruction: str
    computation: str
    opcode: str
    output: int
    tiles: Sequence[ReceivedTileRow]

class ReceivedVerifyRow(ReceivedRow):
    computation: str
    instruction: str
    message: str

class ReceivedVerify(Received[ReceivedVerifyRow]):
    module: str | None
    instruction_count: int | None
    problem_count: int
    problems: Sequence[ReceivedVerifyRow]

class ReceivedReadsRow(ReceivedRow):
    instruction: str
    computation: str
    output: int | None
    operand: int | None
    operand_name: str | None
    opcode: str
    runs: int | None
    access: list[str]
    part_read: float | None
    is_upper_bound: bool | None
    times: float | None
    reused_along: list[str]
    stride: int | None
    segments: float | None
    tiles: float | None
    lines: float | None
    ideal: float | None
    is_coalesced: bool | None
    tile_part: float | None
    relayout: str | None
    operand_shape: str | None
    bytes: int | None
    padding_bytes: int | None
    distinct_bytes: int | None
    least_bytes: int | None
    most_bytes: int | None
    wasted_bytes: int | None
    again_bytes: int | None
    knowledge: str | None
    map: str | None
    source: str
    op_name: str
    error: str | None
    mend: str | None

class ReceivedReadsAccessesRow(ReceivedRow):
    instruction: str
    computation: str
    output: int
    operand: int
    operand_name: str
    leaf: int
    access: str
    reused_along: list[str]
    stride: int | None
    segments: float | None
    tiles: float | None
    lines: float | None
    ideal: float | None
    lanes: float | None
    sublanes: float | None
    relayout: str | None
    map: str
    physical_map: str
    indexing: ReceivedIndexing | None
    physical: IndexingMap | None

class ReceivedReadsWritesRow(ReceivedRow):
    instruction: str
    computation: str
    opcode: str
    shape: str
    bytes: int | None
    padding_bytes: int | None
    error: str | None

class ReceivedReadsByRow(ReceivedRow):
    group: str | None
    wasted_bytes: int | None
    again_bytes: int | None
    distinct_bytes: int | None
    instructions: int | None
    operands: int | None
    failed: int | None

class ReceivedReads(Received[ReceivedReadsRow]):
    name: str
    target: str
    evidence: str
    unit: str
    instructions: int
    operands: int
    distinct_bytes: int
    wasted_bytes: int
    again_bytes: int
    failed: int | None
    reads: Sequence[ReceivedReadsRow]
    accesses: Sequence[ReceivedReadsAccessesRow]
    writes: Sequence[ReceivedReadsWritesRow]
    by: Sequence[ReceivedReadsByRow]

class ReceivedProfileRow(ReceivedRow):
    name: str
    module: str
    program_id: int | None
    opcode: str
    computation: str | None
    time: float | None
    self_time: float | None
    share: float | None
    count: int
    executions: int
    min: float | None
    max: float | None
    bytes: int | None
    padded_bytes: int | None
    wasted_bytes: int | None
    flops: int | None
    bandwidth: float | None
    flop_rate: float | None
    sent_bytes: int | None
    send_rate: float | None
    bound: str | None
    least_time: float | None
    efficiency: float | None
    layout_time: float | None
    is_collective: bool
    is_copy: bool
    source: str
    op_name: str

class ReceivedProfileByRow(ReceivedRow):
    group: str
    time: float | None
    share: float | None
    count: int
    instructions: int | None
    flops: int | None
    bytes: int | None
    layout_time: float | None

class ReceivedProfileAgainstRow(ReceivedRow):
    name: str
    a_name: str | None
    module: str
    opcode: str
    a_time: float | None
    b_time: float | None
    delta_time: float | None
    a_count: int | None
    b_count: int | None
    change: str
    details: str
    source: str
    per: str

class ReceivedProfile(Received[ReceivedProfileRow]):
    time: float | None
    events: int
    devices: list[str]
    modules: list[str]
    steps: int
    target: str | None
    copy_time: float | None
    copy_share: float | None
    communication_time: float | None
    exposed_time: float | None
    layout_time: float | None
    lost_time: float | None
    lost_kernels: int
    lost_in_graphs: int
    shared_kernels: int
    without_module: list[str]
    without_instruction: int
    rows: Sequence[ReceivedProfileRow]
    by: Sequence[ReceivedProfileByRow]
    against: Sequence[ReceivedProfileAgainstRow]
