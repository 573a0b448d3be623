"""Pallas kernels of this JAX: what `reads` promises of larger blocks is what the kernel with these blocks moves, and
what `cost` counts is what the kernel's loops and branches run. Kernels are made for a TPU without one."""

from itertools import product

import pytest

import xlashape as xs
from xlashape.reports.reads.kernels import LargerBlocks

jax = pytest.importorskip("jax", reason="JAX is not installed")
pallas = pytest.importorskip("jax.experimental.pallas", reason="this JAX has no Pallas")
pltpu = pytest.importorskip("jax.experimental.pallas.tpu", reason="this JAX has no Pallas for TPUs")
if not hasattr(jax, "shard_map"):
    pytest.skip("older versions lower kernels otherwise", allow_module_level=True)

SIZES = (1024, 512, 768)


def product_of(rows: int, columns: int, inner: int) -> xs.HloModule:
    """A kernel that multiplies matrices of `SIZES` with blocks of these sizes."""

    def kernel(a, b, out, total):
        @pallas.when(pallas.program_id(2) == 0)
        def _():
            total[...] = jax.numpy.zeros_like(total)

        total[...] += jax.numpy.dot(a[...], b[...], preferred_element_type=jax.numpy.float32)
        out[...] = total[...]

    m, n, k = SIZES
    call = pallas.pallas_call(
        kernel,
        grid=(m // rows, n // columns, k // inner),
        in_specs=[
            pallas.BlockSpec((rows, inner), lambda i, j, k: (i, k)),
            pallas.BlockSpec((inner, columns), lambda i, j, k: (k, j)),
        ],
        out_specs=pallas.BlockSpec((rows, columns), lambda i, j, k: (i, j)),
        scratch_shapes=[pltpu.VMEM((rows, columns), jax.numpy.float32)],
        out_shape=jax.ShapeDtypeStruct((m, n), jax.numpy.float32),
    )
    arguments = [jax.ShapeDtypeStruct(shape, jax.numpy.float32) for shape in ((m, k), (k, n))]
    return xs.HloModule.of(jax.jit(call).trace(*arguments).lower(lowering_platforms=("tpu",)).as_text(dialect="hlo"))


@pytest.mark.parametrize("blocks", [*product((128, 256), (128, 256), (128, 384)), (1024, 512, 768)])
def test_half_as_many_steps_move_what_was_promised(blocks: tuple[int, int, int]) -> None:
    module = product_of(*blocks)
    report = xs.reads(module, target="tpu")
    rows = {row.operand: row for row in report if row.opcode == "custom-call"}
    (alike,) = [each for made, each in report.alike.items() if made.opcode == "custom-call"]
    (kernel,) = [made for made in report.alike if made.opcode == "custom-call"]
    mends = {read.number: read.measured.mend for read in alike.operands}
    grid = [size // block for size, block in zip(SIZES, blocks, strict=True)]
    assert rows[0].times == grid[1] if grid[2] > 1 or grid[1] == 1 else rows[0].times == 1
    for number, row in rows.items():
        mend = mends[number]
        if mend is None:
            assert row.again_bytes == 0
            continue
        assert isinstance(mend, LargerBlocks)
        larger = list(blocks)
        larger[mend.dimension] *= 2
        after = {each.operand: each for each in xs.reads(product_of(*larger), target="tpu")}[number]
        assert row.most_bytes * (1 - mend.part) == after.most_bytes
        assert f"{kernel.operands[number].name} {after.times:.4g} times instead of {row.times:.4g}" in row.mend


def kernel_cost(kernel, grid, shape=(256, 256)):
    """The row of a kernel from an array of float32 to another one of the same shape, both in blocks of 128 x 128."""
    spec = pallas.BlockSpec((128, 128), lambda i, j: (i, j))
    out = jax.ShapeDtypeStruct(shape, jax.numpy.float32)
    call = pallas.pallas_call(kernel, grid=grid, in_specs=[spec], out_specs=spec, out_shape=out)
    text = jax.jit(call).trace(out).lower(lowering_platforms=("tpu",)).as_text(dialect="hlo")
    return next(row for row in xs.cost(text, target="tpu-v5e") if row.opcode == "custom-call")


@pytest.mark.parametrize("blocks", [(128, 128, 128), (256, 128, 384), (1024, 512, 768)])
def test_a_product_counts_what_it_multiplies_and_adds(blocks: tuple[int, int, int]) -> None:
    (row,) = [row for row in xs.cost(product_of(*blocks), target="tpu-v5e") if row.opcode == "custom-call"]
    m, n, k = SIZES
    assert row.flops == 2 * m * n * k + m * n * (k // blocks[2])
    compute = row.flops / 197e12
    assert row.least_time == pytest.approx(max(compute, row.padded_bytes / 819e9), rel=0.05)


def test_a_branch_counts_in_the_steps_in_which_it_runs() -> None:
    def kernel(x, out):
        @pallas.when(pallas.program_id(0) >= pallas.program_id(1))
        def _():
            out[...] = jax.numpy.exp(x[...]) * 2.0

    row = kernel_cost(kernel, (4, 4), (512, 512))
    block = 128 * 128
    assert (row.flops, row.transcendentals) == (10 * block, 10 * block)


def test_a_loop_counts_as_often_as_the_number_of_the_step_says() -> None:
    def kernel(x, out):
        out[...] = jax.lax.fori_loop(0, 2 * pallas.program_id(0) + 1, lambda _, y: y * 3.0, x[...])

    assert kernel_cost(kernel, (3, 2), (384, 256)).flops == 2 * (1 + 3 + 5) * 128 * 128


def test_what_depends_on_data_is_not_known() -> None:
    def kernel(x, out):
        @pallas.when(x[0, 0] > 0)
        def _():
            out[...] = x[...] * 2.0

    row = kernel_cost(kernel, (2, 2))
    assert (row.flops, row.bound) == (None, None)
    assert row.least_time  # that of its bytes
