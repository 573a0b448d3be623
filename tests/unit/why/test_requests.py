"""Requests of memory that allocators and drivers refused: in units and behind prefixes, as logs have them."""

from __future__ import annotations

from itertools import product

import pytest

import xlashape as xs
from xlashape.recognition import recognize

PREFIXES = (
    "",
    "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: ",
    "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: ",
    "E1102 10:01:02.123 pjrt_stream_executor_client.cc:3086] RESOURCE_EXHAUSTED: ",
    "I external/xla/xla/stream_executor/cuda/cuda_executor.cc:1155] ",
    "2026-11-02 10:01:02.123456: W external/xla/xla/tsl/framework/bfc_allocator.cc:501] ",
)
UNITS = (("{:.2f}GiB", 30), ("{:.2f}G", 30), ("{:.2f}MiB", 20), ("{:.2f}M", 20))
REQUESTS = (  # a message with its amount, and with the exact bytes; what its answer begins with; what else it says
    ("Failed to allocate request for {asked} ({exact}B) on device ordinal 3", "{asked} on device ordinal 3", ""),
    ("failed to allocate {asked} ({exact} bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory", "{asked}", "pool"),
    ("failed to allocate {asked} ({exact} bytes) from device: HIP_ERROR_OutOfMemory", "{asked}", "other processes"),
    ("INTERNAL: Failed to allocate {exact} bytes for new constant", "{asked} for a new constant", "as arguments"),
    ("failed to alloc {exact} bytes on host: CUDA_ERROR_OUT_OF_MEMORY", "{asked} in memory of the host", "not the device's"),
    ("could not allocate pinned host memory of size: {exact}", "{asked} in memory of the host", "not the device's"),
    ("Out of memory allocating {exact} bytes.", "{asked}", ""),
    ("Out of memory while trying to allocate {exact} bytes.", "{asked}", ""),
    ("Out of memory while trying to allocate {asked}.", "{asked}", ""),
)  # fmt: skip


@pytest.mark.parametrize(("message", "begins", "says"), REQUESTS)
def test_requests_of_every_allocator(message, begins, says):
    for number, (prefix, (unit, exponent)) in enumerate(product(PREFIXES, UNITS)):
        exact = 12_884_901_888 + (number << 28)
        text = prefix + message.format(asked=unit.format(exact / (1 << exponent)), exact=exact)
        found = xs.why(text + "\n")
        told = " ".join(str(found).split())
        size = f"{exact / (1 << 30):.2f} GiB"
        assert told.startswith(f"a request of {begins.format(asked=size)} failed; the text does not say how"), (
            text,
            told,
        )
        assert says in told
        assert ("GPU" in told) == (says in ("pool", "other processes"))
        assert found.must_go_bytes is None
        assert recognize(text.encode()).kind == "report"


@pytest.mark.parametrize("place", ["", "; (0x0x0_HBM0)"])
@pytest.mark.parametrize("before", ["", "Error allocating device buffer: "])
def test_requests_that_say_what_is_free(before, place):
    for number, (prefix, (unit, exponent)) in enumerate(product(PREFIXES, UNITS)):
        free = (5 << 28) + (number << 20)
        asked = free + (number + 1 << 27)
        sizes = [unit.format(size / (1 << exponent)) for size in (asked, free)]
        text = f"{prefix}{before}Attempting to allocate {sizes[0]}. That was not possible. There are {sizes[1]} free.{place}"
        found = xs.why(text + "\n")
        assert abs(found.must_go_bytes - (asked - free)) < 1 << exponent - 6
        told = " ".join(str(found).split())
        assert told.startswith("a request of ")
        assert "GiB were free: " in told
        assert ("on 0x0x0_HBM0 failed" in told) == bool(place)
        assert recognize(text.encode()).kind == "report"


def test_the_statistics_of_an_allocator_say_what_is_free():
    warning = "Allocator (GPU_0_bfc) ran out of memory trying to allocate {}"
    fails, goes_on = (
        "(rounded to 25769803776)requested by op ",
        "with freed_by_count=0. The caller indicates that this is not a failure, but there could be gains.",
    )
    for prefix, limit, held in product(PREFIXES, (64_424_509_440, 17_179_869_184), (0, 4_000_000_000, 16_000_000_000)):
        lines = [
            "Stats: ",
            f"Limit:   {limit}",
            f"InUse:   {held}",
            "MaxInUse:   7",
            "NumAllocs:  12",
            "MaxAllocSize:  9",
        ]
        for size, end in ((24, fails), (7.5, goes_on)):
            text = "\n".join([prefix + warning.format(f"{size:.2f}GiB {end}"), prefix + lines[0], *lines[1:]])
            told = " ".join(str(xs.why(text)).split())
            free = f"{(limit - held) / (1 << 30):.2f} GiB"
            if end == goes_on:
                assert told.startswith(f"7.50 GiB were asked for, and {free} were free this is no failure"), told
            else:
                assert f"24.00 GiB failed; of {limit / (1 << 30):.2f} GiB, {free} were free" in told
                assert ("not in one piece" in told) == (limit - held >= 24 << 30)
            assert "not understood" not in told
    both = "\n".join(
        [warning.format(f"7.50GiB {goes_on}"), "Out of memory while trying to allocate 25769803776 bytes."]
    )
    assert str(xs.why(both)).startswith("a request of 24.00 GiB failed")


@pytest.mark.parametrize(
    "error", ["CUDA_ERROR_OUT_OF_MEMORY: out of memory", "HIP_ERROR_OutOfMemory", "hipErrorOutOfMemory"]
)
def test_the_error_of_a_driver_alone(error):
    for prefix in PREFIXES:
        told = " ".join(str(xs.why(f"{prefix}{error}\n")).split())
        assert told.startswith("the driver of the GPU ran out of memory; the text does not say how much was asked for")
