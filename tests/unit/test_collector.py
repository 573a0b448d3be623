"""The pause of the cycle collector: it ends with the last of several, also after an error, and leaves a collector off
that was."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from threading import Event, Thread

import pytest

import xlashape as xs
from xlashape.base.collector import collector_paused


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    yield
    gc.enable()


def test_pauses_end_with_the_outermost() -> None:
    with collector_paused():
        with collector_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_an_error_ends_a_pause() -> None:
    with pytest.raises(xs.errors.ParseError):
        xs.HloModule.parse("HloModule m ENTRY e { ROOT p = f32[8] nothing(")
    with pytest.raises(xs.errors.XlashapeError):
        xs.memory("no program")
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    with collector_paused():
        pass
    assert not gc.isenabled()


def test_pauses_of_threads_end_with_the_last() -> None:
    begun, ended = Event(), Event()

    def paused() -> None:
        with collector_paused():
            begun.set()
            ended.wait(10)

    thread = Thread(target=paused)
    with collector_paused():
        thread.start()
        assert begun.wait(10)
    assert not gc.isenabled()
    ended.set()
    thread.join()
    assert gc.isenabled()
