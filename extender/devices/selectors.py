"""Selectors of devices in CEL: each is compiled once, and evaluated once for all devices that it cannot tell apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from cel_expr_python import cel

from extender.caches import SizedDict
from extender.devices.celfunctions import cel_quantity, cel_semver, functions
from extender.devices.reading import LOOKED_UP, ExpressionReading, read_expression
from extender.objects.reason import quoted
from extender.objects.resourceslice import AttributeValue, DeviceVersion, PoolDevice, qualified, typed_value
from extender.objects.semver import parse_semver

#: The longest expression that the API server takes. Source: k8s.io/api/resource/v1 CELSelectorExpressionMaxLength.
_LONGEST = 10 * 1024

#: What may be remembered of compiled expressions, and of their answers (bytes).
_COMPILED_BYTES = 8 << 20
_ANSWERS_BYTES = 16 << 20
#: What a compiled expression takes besides its text (bytes): measured, 4 to 9 KB for a selector of three conditions.
_COMPILED_SIZE = 10_000

#: The libraries of CEL that Kubernetes has, but for `cel.bind`, which is compiled as a comprehension.
#: Source: k8s.io/apiserver/pkg/cel/environment/base.go.
_LIBRARIES = """
name: muster
extensions:
- name: strings
  version: 2
- name: optional
- name: sets
- name: lists
- name: two-var-comprehensions
"""


@dataclass(frozen=True, slots=True)
class SelectorError:
    """An expression that cannot be evaluated for a device, or at all: kube-scheduler then places the pod nowhere."""

    expression: str
    message: str

    def __str__(self) -> str:
        """Name the expression and what is wrong with it."""
        return f"selector {quoted(self.expression)}: {self.message}"


Answer: TypeAlias = bool | SelectorError
"""Whether a device matches."""


class _CelType(Protocol):
    def name(self) -> str: ...


class _Value(Protocol):
    def type(self) -> _CelType: ...
    def value(self) -> object: ...


class _Program(Protocol):
    def eval(self, *, data: dict[str, object]) -> _Value: ...
    def return_type(self) -> _CelType: ...


class _Environment(Protocol):
    def compile(self, expression: str) -> _Program: ...


@dataclass(frozen=True, slots=True)
class _Compiled:
    program: _Program
    reading: ExpressionReading


class Selectors:
    """Evaluate selectors of devices; what was compiled and answered is remembered within a bound."""

    def __init__(self) -> None:
        """Remember nothing yet."""
        self._environment: _Environment | None = None
        self._compiled: SizedDict[str, _Compiled | SelectorError] = SizedDict(_COMPILED_BYTES)
        self._answers: SizedDict[tuple[object, ...], Answer] = SizedDict(_ANSWERS_BYTES)
        self.evaluations = 0

    def matches(self, expression: str, driver: str, device: PoolDevice) -> Answer:
        """Tell whether a device of `driver` matches one expression."""
        compiled = self._compiled.get(expression)
        if compiled is None:
            compiled = self._compiled.keep(expression, self._compile(expression), _COMPILED_SIZE + 4 * len(expression))
        if isinstance(compiled, SelectorError):
            return compiled
        key = (expression, driver, device.shared, _read_of(compiled.reading, driver, device))
        answer = self._answers.get(key)
        if answer is None:
            read = compiled.reading.attributes
            size = 300 + (200 * len(device.attributes) if read is None else 100 * len(read))
            answer = self._answers.keep(key, self._evaluate(expression, compiled, driver, device), size)
        return answer

    def all_match(self, expressions: tuple[str, ...], driver: str, device: PoolDevice) -> Answer:
        """Tell whether a device matches all expressions; the first that does not decides."""
        for expression in expressions:
            answer = self.matches(expression, driver, device)
            if answer is not True:
                return answer
        return True

    def forget_answers(self) -> None:
        """Evaluate everything again that is asked from now on."""
        self._answers.clear()

    def problem(self, expression: str) -> SelectorError | None:
        """Return what keeps an expression from being evaluated for any device."""
        found = self._compiled.get(expression)
        if found is None:
            found = self._compiled.keep(expression, self._compile(expression), _COMPILED_SIZE + 4 * len(expression))
        return found if isinstance(found, SelectorError) else None

    def _compile(self, expression: str) -> _Compiled | SelectorError:
        if len(expression) > _LONGEST:
            return SelectorError(expression, f"is longer than {_LONGEST} characters")
        if self._environment is None:
            self._environment = _environment()
        reading = read_expression(expression)
        if unsafe := reading.names & _UNSAFE:
            return SelectorError(expression, f"{', '.join(sorted(unsafe))} cannot be relied on here")
        try:
            program = self._environment.compile(reading.text)
        except (RuntimeError, ValueError) as error:
            return SelectorError(expression, _first_line(error))
        if program.return_type().name() not in _BOOLEAN:
            return SelectorError(expression, f"gives {program.return_type().name()}, not a boolean")
        return _Compiled(program, reading)

    def _evaluate(self, expression: str, compiled: _Compiled, driver: str, device: PoolDevice) -> Answer:
        self.evaluations += 1
        try:
            value = compiled.program.eval(data={"device": _seen_by_cel(compiled.reading, driver, device)})
            kind, result = value.type().name(), value.value()
        except (RuntimeError, ValueError) as error:
            return SelectorError(expression, _first_line(error))
        if isinstance(result, bool):
            return result
        return SelectorError(expression, str(result) if kind == "ERROR" else f"gives {kind}, not a boolean")


#: Macros that bind a value as `cel.bind` does (see `reading`).
_UNSAFE: Final = frozenset({"optMap", "optFlatMap"})

_BOOLEAN: Final = frozenset({"BOOL", "DYN"})


def _environment() -> _Environment:
    environment: _Environment = cel.NewEnv(
        config=cel.NewEnvConfigFromYaml(_LIBRARIES), variables={"device": cel.Type.DYN}, functions=functions()
    )
    return environment


def _first_line(error: Exception) -> str:
    """Return what the library says, without the picture of the place that it draws below."""
    text = str(error).partition("\n")[0]
    return text.removeprefix("INVALID_ARGUMENT: ").removeprefix("ERROR: ")


def _read_of(reading: ExpressionReading, driver: str, device: PoolDevice) -> tuple[object, ...]:
    """Return all of a device that an expression may read, as a key."""
    if reading.attributes is None:
        return (tuple(device.attributes), tuple(map(typed_value, device.attributes.values())), device.capacity)
    key: list[object] = []
    for field, domain, name in reading.attributes:
        wanted = f"{driver if domain is None else domain}/{name or ''}"
        if name is None:
            key.append(_has_domain(field, wanted, driver, device))
        elif field == "attributes":
            value = device.attributes.value(wanted)
            key.append(value if value.__class__ is str else value is not None and typed_value(value))
        else:
            key.append(
                next((each.value for own, each in device.capacity.items if qualified(own, driver) == wanted), None)
            )
    return tuple(key)


def _has_domain(field: str, prefix: str, driver: str, device: PoolDevice) -> bool:
    names = device.attributes if field == "attributes" else dict(device.capacity.items)
    return any(qualified(name, driver).startswith(prefix) for name in names)


def _seen_by_cel(reading: ExpressionReading, driver: str, device: PoolDevice) -> dict[str, object]:
    """Return a device as expressions see it, without maps that this one does not name.

    Source: dynamic-resource-allocation/cel DeviceMatches.
    """
    seen: dict[str, object] = {"driver": driver, "allowMultipleAllocations": device.shared}
    for field, looked_up in LOOKED_UP.items():
        if not {field, looked_up} & reading.names:
            continue
        values: dict[str, dict[str, object]] = {}
        for name, value in _values(field, driver, device):
            domain, _, short = name.partition("/")
            values.setdefault(domain, {})[short] = value
        if field in reading.names:
            seen[field] = values
        if looked_up in reading.names:
            seen[looked_up] = {domain: {} for domain in (*reading.domains, driver)} | values
    return seen


def _values(field: str, driver: str, device: PoolDevice) -> Iterator[tuple[str, object]]:
    if field == "attributes":
        return ((name, _cel_value(value)) for name, value in device.attributes.items())
    return ((qualified(name, driver), cel_quantity(each.value)) for name, each in device.capacity.items)


def _cel_value(value: AttributeValue) -> object:
    if isinstance(value, tuple):
        return [_cel_value(each) for each in value]
    if isinstance(value, DeviceVersion):
        version = parse_semver(value.text)
        return value.text if version is None else cel_semver(version)
    return value
