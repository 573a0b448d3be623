"""Every exception survives the wire and pickling with all it knows."""

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xlashape import errors

ALL = [getattr(errors, name) for name in errors.__all__ if name.endswith("Error")]


def test_codes_are_distinct():
    codes = [cls.code for cls in ALL]
    assert len(set(codes)) == len(codes)


def test_the_tree_in_the_docstring_names_every_class_and_code():
    for cls in ALL:
        row = next(line for line in errors.__doc__.splitlines() if line.strip("│├└─ ").startswith(cls.__name__))
        assert f" {cls.code}" in row or cls is errors.XlashapeError


@pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.code)
def test_details_rebuild_the_same_exception(cls):
    error = cls("what went wrong", field="shapes[3]")
    for again in (
        errors.from_details(error.code, error.message, error.details()),
        pickle.loads(pickle.dumps(error)),
        copy.deepcopy(error),
    ):
        assert type(again) is cls
        assert (again.message, again.field, str(again)) == (
            error.message,
            error.field,
            str(error),
        )


def test_a_parse_error_keeps_its_place():
    error = errors.ParseError(
        "expected ']'",
        line=3,
        column=7,
        source_line="f32[1,2",
        caret=6,
        name="a.hlo",
        expected="']'",
        found="end",
    )
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == "a.hlo:3:7: expected ']'\n  f32[1,2\n        ^"
    assert again.details() == error.details()


def test_a_limit_error_keeps_its_numbers():
    error = errors.LimitExceededError("too many", limit="steps", maximum=10, value=11)
    again = errors.from_details(error.code, error.message, error.details())
    assert isinstance(again, errors.LimitExceededError)
    assert (again.limit, again.maximum, again.value) == ("steps", 10, 11)


@pytest.mark.parametrize(
    ("cls", "builtin"),
    [
        (errors.InvalidArgumentError, ValueError),
        (errors.ParseError, ValueError),
        (errors.InvalidIndexError, IndexError),
        (errors.NotFoundError, LookupError),
        (errors.DeadlineExceededError, TimeoutError),
    ],
)
def test_callers_of_the_standard_library_catch_them_too(cls, builtin):
    assert issubclass(cls, builtin)


def test_an_unknown_code_is_still_one_of_ours():
    assert type(errors.from_details("from_the_future", "text", {"x": "y"})) is errors.XlashapeError


def test_details_of_a_stranger_do_not_break_the_client():
    # Another version of the server may send text where this one has numbers.
    error = errors.from_details("parse", "m", {"line": "three", "column": ""})
    assert isinstance(error, errors.ParseError)
    assert (error.line, error.column) == (1, 1)


NAMES = st.text(st.characters(exclude_characters=".[]", exclude_categories=["Cs"]), min_size=1)


@given(st.lists(NAMES | st.integers(0, 10**18), max_size=6).map(tuple))
def test_a_path_is_read_back_from_its_text(path):
    assert errors.path_of(errors.path_text(path)) == path


@pytest.mark.parametrize(
    ("field", "path"),
    [
        (None, ()),
        ("", ()),
        ("shape", ("shape",)),
        ("--bytes", ("--bytes",)),
        ("tiles[2].dimensions", ("tiles", 2, "dimensions")),
        ("rows[3][1]", ("rows", 3, 1)),
        (("tiles", 2, "dimensions"), ("tiles", 2, "dimensions")),
    ],
)
def test_a_field_is_a_name_a_path_or_its_text(field, path):
    error = errors.InvalidShapeError("no", field=field)
    assert error.path == path
    assert error.field == (errors.path_text(path) or None)


@pytest.mark.parametrize(
    "text", ["a..b", ".", "a[", "a[]", "a[b]", "a[-1]", "a[1]b", "a[" + "9" * 5000 + "]", "[", "a.[1]"]
)
def test_text_that_is_no_path_is_one_name(text):
    assert errors.path_of(text) == (text,)


@pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.code)
def test_a_path_is_put_within_another_and_survives_the_wire(cls):
    error = cls("no", field=("dimensions", 3))
    assert error.within("shapes", 0, "proto") is error
    for again in (
        error,
        errors.from_details(error.code, error.message, error.details()),
        pickle.loads(pickle.dumps(error)),
    ):
        assert again.path == ("shapes", 0, "proto", "dimensions", 3)
        assert again.field == "shapes[0].proto.dimensions[3]"
    assert error.details()["field"] == error.field


def test_the_field_follows_from_the_path():
    error = errors.InvalidArgumentError("no")
    assert error.within().field is None
    with pytest.raises(AttributeError):
        error.field = "elsewhere"
