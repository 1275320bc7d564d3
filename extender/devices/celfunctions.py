"""The functions that Kubernetes adds to CEL and that selectors of devices use: quantities and semantic versions.

Values of types that CEL does not have are maps with one key, the name of the type, and the value in one form of
writing: so equal ones are equal. Source: k8s.io/apiserver/pkg/cel/library quantity.go, semverlib.go; release 1.37.
What else there is (IP addresses, URLs, formats, `find`) is not known here, and an expression that uses it is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from cel_expr_python import cel

from extender.objects.requests import QuantityError, signed_billionths
from extender.objects.semver import SemanticVersion, parse_loose_semver, parse_semver

QUANTITY: Final = "kubernetes.Quantity"
SEMVER: Final = "kubernetes.Semver"

Special: TypeAlias = Mapping[str, str]
"""A quantity or a version as CEL sees it."""

#: Where Go is sure to keep a quantity as an integer (billionths); beyond that it depends on how it is written.
_SURELY_INTEGER = 10**13 * 10**9
_BILLION = 10**9


def cel_quantity(billionths: int) -> dict[str, str]:
    """Return a quantity as CEL sees it."""
    return {QUANTITY: str(billionths)}


def cel_semver(version: SemanticVersion) -> dict[str, str]:
    """Return a version as CEL sees it."""
    return {SEMVER: str(version)}


def _amount(value: Special) -> int:
    if QUANTITY not in value:
        raise ValueError("no such overload: not a quantity")
    return int(value[QUANTITY])


def _version(value: Special) -> SemanticVersion:
    version = parse_semver(value.get(SEMVER, ""))
    if version is None:
        raise ValueError("no such overload: not a version")
    return version


def _quantity(text: str) -> dict[str, str]:
    return cel_quantity(signed_billionths(text))


def _is_quantity(text: str) -> bool:
    try:
        signed_billionths(text)
    except QuantityError:
        return False
    return True


def _read_version(text: str, parse: Callable[[str], SemanticVersion | None]) -> dict[str, str]:
    version = parse(text)
    if version is None:
        raise ValueError(f"{text!r} is no semantic version")
    return cel_semver(version)


def _semver(text: str, loose: bool = False) -> dict[str, str]:  # noqa: FBT001, FBT002 - called by position
    return _read_version(text, parse_loose_semver if loose else parse_semver)


def _is_semver(text: str, loose: bool = False) -> bool:  # noqa: FBT001, FBT002 - called by position
    return (parse_loose_semver if loose else parse_semver)(text) is not None


def _compare(one: Special, other: Special) -> int:
    if QUANTITY in one:
        left, right = _amount(one), _amount(other)
        return (left > right) - (left < right)
    first, second = _version(one), _version(other)
    return (first > second) - (first < second)


def _is_integer(value: Special) -> bool:
    amount = _amount(value)
    if amount % _BILLION:
        return False
    if abs(amount) >= _SURELY_INTEGER:
        raise ValueError("whether so large a quantity is an integer depends on how it is written")
    return True


def _as_integer(value: Special) -> int:
    if not _is_integer(value):
        raise ValueError("cannot convert value to integer")
    return _amount(value) // _BILLION


def _sign(value: Special) -> int:
    amount = _amount(value)
    return (amount > 0) - (amount < 0)


def functions() -> list[object]:
    """Return the functions as the library declares them."""
    kind, text, flag = cel.Type, cel.Type.STRING, cel.Type.BOOL
    special = kind.Map(text, text)

    def function(name: str, *overloads: object) -> object:
        return cel.FunctionDecl(name, list(overloads))

    def overload(
        name: str, returns: object, parameters: list[object], call: Callable[..., object], *, member: bool = True
    ) -> object:
        return cel.Overload(name, return_type=returns, parameters=parameters, is_member=member, impl=call)

    pair = [special, special]
    return [
        function("quantity", overload("quantity_of", special, [text], _quantity, member=False)),
        function("isQuantity", overload("quantity_is", flag, [text], _is_quantity, member=False)),
        function("sign", overload("quantity_sign", kind.INT, [special], _sign, member=False)),
        function(
            "asApproximateFloat",
            overload("quantity_float", kind.DOUBLE, [special], lambda value: _amount(value) / _BILLION),
        ),
        function("asInteger", overload("quantity_integer", kind.INT, [special], _as_integer)),
        function("isInteger", overload("quantity_is_integer", flag, [special], _is_integer)),
        function(
            "add",
            overload("quantity_add", special, pair, lambda a, b: cel_quantity(_amount(a) + _amount(b))),
            overload(
                "quantity_add_int", special, [special, kind.INT], lambda a, n: cel_quantity(_amount(a) + n * _BILLION)
            ),
        ),
        function(
            "sub",
            overload("quantity_sub", special, pair, lambda a, b: cel_quantity(_amount(a) - _amount(b))),
            overload(
                "quantity_sub_int", special, [special, kind.INT], lambda a, n: cel_quantity(_amount(a) - n * _BILLION)
            ),
        ),
        function("isGreaterThan", overload("special_greater", flag, pair, lambda a, b: _compare(a, b) > 0)),
        function("isLessThan", overload("special_less", flag, pair, lambda a, b: _compare(a, b) < 0)),
        function("compareTo", overload("special_compare", kind.INT, pair, _compare)),
        function(
            "semver",
            overload("semver_of", special, [text], _semver, member=False),
            overload("semver_of_loose", special, [text, flag], _semver, member=False),
        ),
        function(
            "isSemver",
            overload("semver_is", flag, [text], _is_semver, member=False),
            overload("semver_is_loose", flag, [text, flag], _is_semver, member=False),
        ),
        function("major", overload("semver_major", kind.INT, [special], lambda value: _version(value).major)),
        function("minor", overload("semver_minor", kind.INT, [special], lambda value: _version(value).minor)),
        function("patch", overload("semver_patch", kind.INT, [special], lambda value: _version(value).patch)),
    ]
