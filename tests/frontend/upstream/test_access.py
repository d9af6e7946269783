"""Private names of other packages: all are there, are replaced and restored, and a missing one is an error."""

import json.decoder
import sys

import pytest

from deuteron.errors import MissingToolError
from deuteron.frontend.upstream import private_apis
from deuteron.frontend.upstream.access import PrivateName, missing, replaced, value_of

DECODE = PrivateName("json.decoder", "JSONDecoder.decode", "is a test's")
RENAMED = PrivateName("json.decoder", "JSONDecoder.decode_all", "is a test's")
GONE = PrivateName("json.no_such_module", "decode", "is a test's")


def test_the_installed_releases_have_all_declared_names() -> None:
    assert private_apis.missing() == ()
    assert len(set(map(str, private_apis.NAMES))) == len(private_apis.NAMES) > 50


def test_names_that_a_release_has_no_more_are_listed() -> None:
    assert missing([DECODE, RENAMED, GONE]) == (RENAMED, GONE)


@pytest.mark.parametrize(
    "name",
    [
        PrivateName("json.decoder", "JSONDecodeError.colno", "is set by a method"),
        PrivateName("json.decoder", "scanner", "is imported"),
        PrivateName("json.scanner", "c_make_scanner", "is bound in a `try`"),
        PrivateName("json", "loads", "is in a package's own file"),
    ],
    ids=str,
)
def test_a_name_is_found_however_it_is_bound(name: PrivateName) -> None:
    assert missing([name]) == ()


def test_nothing_is_imported_to_look() -> None:
    before = set(sys.modules)
    missing([PrivateName("wsgiref.simple_server", "make_server", "is a test's")])
    assert "wsgiref.simple_server" not in set(sys.modules) - before


def test_a_replaced_name_is_restored() -> None:
    original = vars(json.decoder.JSONDecoder)["decode"]

    def fails() -> None:
        with replaced(DECODE, lambda decode: (decode, 1)):
            assert vars(json.decoder.JSONDecoder)["decode"] == (original, 1)
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert value_of(DECODE) is original


def test_an_optional_name_may_be_missing() -> None:
    with replaced(PrivateName("json.decoder", "JSONDecoder.decode_all", "is a test's", True), lambda _: 1):
        assert not hasattr(json.decoder.JSONDecoder, "decode_all")


@pytest.mark.parametrize("name", [RENAMED, GONE], ids=str)
def test_a_missing_name_is_an_error(name: PrivateName) -> None:
    text = (
        f"the installed release of `json` has no `{name}`, which is a test's\n\n"
        "hint: install the releases that `deuteron doctor` names"
    )
    with pytest.raises(MissingToolError) as caught, replaced(name, lambda _: 1):
        pass
    assert str(caught.value) == text
    with pytest.raises(MissingToolError) as caught:
        value_of(name)
    assert str(caught.value) == text
