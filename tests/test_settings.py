"""Settings: what is accepted, and how what is not is refused."""

from __future__ import annotations

import contextlib
import math
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from extender.settings import Settings, SettingsError, load_settings, missing_classes


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Return the path of a configuration file that does not exist yet."""
    return tmp_path / "muster.yaml"


def refusal(path: Path | None, overrides: dict[str, Any] | None = None) -> str:
    """Return the message with which a configuration is refused."""
    with pytest.raises(SettingsError) as caught:
        load_settings(path, overrides or {})
    return str(caught.value)


def test_defaults() -> None:
    """Without a file and without options every setting has its default."""
    assert load_settings(None, {}) == Settings()
    assert Settings().scheduler_names == ("muster",)


def test_every_setting_is_documented() -> None:
    """Each setting says what it is for; each one in seconds, bytes or counts is a number, the others name something."""
    words = {
        "names",
        "lease",
        "levels",
        "preset",
        "reads",
        "map",
        "pods",
        "backfill",
        "dashboard",
        "goal",
        "resources",
        "conditions",
        "taints",
        "mappings",
        "class",
        "parameters",
        "members",
        "store",
        "label",
        "days",
    }
    for name, field in Settings.model_fields.items():
        assert field.description, name
        unit = name.rpartition("_")[2]
        assert unit in words | {"seconds", "second", "concurrency", "bytes", "megabytes", "limit"}, name
        assert field.annotation in (float, int, float | None) or unit in words, name


def test_file_and_options(config: Path) -> None:
    """A file replaces defaults, an option of the command line replaces what the file says."""
    config.write_text("veto_seconds: 5\nscheduler_names: [a, b]\nwrite_concurrency: 3\n")
    loaded = load_settings(config, {"veto_seconds": 7.5})
    assert (loaded.veto_seconds, loaded.scheduler_names, loaded.write_concurrency) == (7.5, ("a", "b"), 3)
    assert loaded.nudge_seconds == Settings().nudge_seconds


@pytest.mark.parametrize("text", ["", "# nothing but a comment\n", "---\n", "{}\n"])
def test_empty_file(config: Path, text: str) -> None:
    """An empty file says nothing, and the defaults stand."""
    config.write_text(text)
    assert load_settings(config, {}) == Settings()


def test_missing_file_is_named(config: Path) -> None:
    """A file that is not there is an error that names it."""
    assert refusal(config).startswith(f"{config}: ")
    assert "No such file" in refusal(config)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"a: [", "expected the node content"),
        (b"\xff\xfe\xfd", "codec can't decode"),
        (b"veto_seconds: 5\nveto_seconds: 6", "line 2, column 1: key 'veto_seconds' is given twice"),
        (b"veto_seconds: &a [*a]", "line 1, column 15: contains itself"),
        (b"veto_seconds: !!bool x", "a value does not fit its tag"),
        (b"veto_seconds: 2026-13-45", "month must be in 1..12"),
        (b"- veto_seconds", "expected a mapping of settings, found list"),
        (b"false", "expected a mapping of settings, found bool"),
        (b"veto_seconds", "expected a mapping of settings, found str"),
        (b"a: 1\n---\nb: 2\n", "expected a single document"),
    ],
)
def test_unreadable_file_is_named(config: Path, content: bytes, expected: str) -> None:
    """What is no mapping in YAML is refused with the file's name and the cause."""
    config.write_bytes(content)
    message = refusal(config)
    assert message.startswith(f"{config}: ")
    assert expected in message
    assert len(message.splitlines()) == 1


def test_aliases_that_multiply_are_refused(config: Path) -> None:
    """Nine lines of aliases to aliases would be a thousand million values."""
    lines = ["a0: &a0 [x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10))]
    config.write_text("\n".join(lines))
    assert refusal(config) == f"{config}: line 6, column 5: aliases repeat more than 100,000 values"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("veto_seconds: 0", "veto_seconds: Input should be greater than 0 (got 0)"),
        ("debounce_seconds: -1", "debounce_seconds: Input should be greater than or equal to 0 (got -1)"),
        ("stale_after_seconds: .inf", "stale_after_seconds: Input should be a finite number (got inf)"),
        ("nudge_seconds: .nan", "nudge_seconds: Input should be a finite number (got nan)"),
        ("write_concurrency: 1.5", "write_concurrency: Input should be a valid integer"),
        ("report_rate_per_second: fast", "report_rate_per_second: Input should be a valid number"),
        ("report_delay_seconds:", "report_delay_seconds: Input should be a valid number"),
        ("scheduler_names: muster", "scheduler_names: Input should be a valid tuple (got 'muster')"),
        ("scheduler_names: [muster, 7]", "scheduler_names.1: Input should be a valid string (got 7)"),
        ("body_limit_bytes: 10", "body_limit_bytes: Input should be greater than or equal to 1024 (got 10)"),
        ("veto_secnds: 5", "veto_secnds: there is no such setting; did you mean veto_seconds? (got 5)"),
        ("x: {y: 1}", "x: there is no such setting (got {'y': 1})"),
        ("7: 1", "7: Keys should be strings (got 7)"),
        (f"{'x' * 500}: {'y' * 500}", f"{'x' * 500}: there is no such setting (got '{'y' * 199}...)"),
    ],
)
def test_bad_value_is_named(config: Path, text: str, expected: str) -> None:
    """A value that is refused is named with its file, its key, what is wrong and what was found."""
    config.write_text(text)
    assert f"{config}: {expected}" in refusal(config)


def test_all_bad_values_are_named_at_once(config: Path) -> None:
    """One look at the message is enough to repair the file: every bad value has its line."""
    config.write_text("veto_seconds: 0\nnudge_seconds: no\nfoo: 1\n")
    lines = refusal(config).splitlines()
    assert [line.removeprefix(f"{config}: ").partition(":")[0] for line in lines] == [
        "veto_seconds",
        "nudge_seconds",
        "foo",
    ]


def test_bad_option_is_not_blamed_on_the_file(config: Path) -> None:
    """A value from the command line is named as such, with or without a file."""
    config.write_text("nudge_seconds: 1\n")
    for path in (None, config):
        assert refusal(path, {"veto_seconds": -1}).startswith("command line: veto_seconds: ")


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ({"scheduler_names": ()}, "scheduler_names: at least one name is needed"),
        ({"scheduler_names": ("muster", "")}, "scheduler_names: at least one name is needed, and none may be empty"),
        ({"bind_hold_seconds": 30}, "bind_hold_seconds (30) must be below http_timeout_seconds (30)"),
        (
            {"bind_hold_seconds": 29.5},
            "answer_margin_seconds (1) leaves no time to bind after bind_hold_seconds (29.5)",
        ),
        ({"body_limit_bytes": 2**30}, "bodies_limit_bytes (201326592) must not be below body_limit_bytes (1073741824)"),
        ({"connection_limit": 4000}, "connection_limit (4000) must not be below bind_limit (16384)"),
        ({"backoff_initial_seconds": 121}, "backoff_initial_seconds (121) must not exceed backoff_max_seconds (120)"),
    ],
)
def test_contradictions_are_named(config: Path, overrides: dict[str, Any], expected: str) -> None:
    """Settings that contradict each other are refused with both names and values."""
    assert refusal(None, overrides).startswith(f"command line: {expected}")
    config.write_text(yaml.safe_dump({key: list(v) if isinstance(v, tuple) else v for key, v in overrides.items()}))
    assert refusal(config).startswith(f"{config}: {expected}")


RACK = {"name": "rack", "nodeLabel": "example.com/rack"}
SPINE = {"name": "spine", "nodeLabel": "example.com/spine"}


def test_levels_are_listed_from_the_outside(config: Path) -> None:
    """A level has a name and a label, and factors where they were measured; the node itself need not be listed."""
    node = {"name": "host", "nodeLabel": "kubernetes.io/hostname"}
    config.write_text(yaml.safe_dump({"topology_levels": [SPINE | {"allreduceFactor": 0.8}, RACK, node]}))
    spine, rack = load_settings(config, {}).topology_levels
    assert (spine.name, spine.node_label, spine.allreduce_factor) == ("spine", "example.com/spine", 0.8)
    assert (rack.name, rack.allreduce_factor, rack.alltoall_factor) == ("rack", None, None)


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        ([RACK, RACK], "topology_levels: level 1 (rack: example.com/rack): name and nodeLabel must differ"),
        (
            [RACK, SPINE | {"name": "rack"}],
            "topology_levels: level 1 (rack: example.com/spine): name and nodeLabel must",
        ),
        (
            [{"name": "node", "nodeLabel": "kubernetes.io/hostname"}, RACK],
            "topology_levels: level 0 (node: kubernetes.io/hostname): 'kubernetes.io/hostname' is a level by itself",
        ),
        ([RACK | {"name": "cluster"}], "topology_levels: level 0 (cluster: example.com/rack): 'cluster' is a level by"),
        (
            [SPINE | {"allreduceFactor": 0.9}, RACK | {"allreduceFactor": 0.8}],
            "topology_levels: level 1 (rack): allreduceFactor 0.8 is below 0.9 of a level further out",
        ),
        (
            [SPINE | {"alltoallFactor": 0.9}, RACK | {"alltoallFactor": 0.8}],
            "topology_levels: level 1 (rack): alltoallFactor 0.8 is below 0.9",
        ),
        ([RACK | {"allreduceFactor": 0}], "topology_levels.0.allreduceFactor: Input should be greater than 0"),
        ([RACK | {"alltoallFactor": 1.1}], "topology_levels.0.alltoallFactor: Input should be less than or equal to 1"),
        ([RACK | {"nodeLabel": "a b"}], "topology_levels.0.nodeLabel: String should match"),
        ([{"name": "rack"}], "topology_levels.0.nodeLabel: Field required"),
        ([RACK | {"nodelabel": 1}], "topology_levels.0.nodelabel: there is no such setting; did you mean nodeLabel?"),
    ],
)
def test_levels_that_make_no_sense_are_refused(levels: list[dict[str, Any]], expected: str) -> None:
    """What cannot be told apart, is no tier of the network, or gains with distance is named with its place."""
    assert refusal(None, {"topology_levels": levels}).startswith(f"command line: {expected}")


def test_classes_of_devices_have_quota_by_a_name(config: Path) -> None:
    """A mapping has a name and DeviceClasses, in Kueue's words; those that do not exist are named with their place."""
    written = [{"name": "whole-gpus", "deviceClassNames": ["gpu.nvidia.com", "gpu.amd.com"]}]
    config.write_text(yaml.safe_dump({"device_class_mappings": written}))
    settings = load_settings(config, {})
    (mapping,) = settings.device_class_mappings
    assert (mapping.name, mapping.device_class_names) == ("whole-gpus", ("gpu.nvidia.com", "gpu.amd.com"))
    missing = ("device_class_mappings.0.deviceClassNames.1", "gpu.amd.com")
    assert list(missing_classes(settings, {"gpu.nvidia.com"}.__contains__)) == [missing]


@pytest.mark.parametrize(
    ("mappings", "expected"),
    [
        (
            [("a", ["x.com"]), ("example.com/b", ["y.com", "x.com"])],
            "device_class_mappings: mapping 1 (example.com/b): deviceClassNames: 'x.com' is listed in mapping 0 (a)",
        ),
        ([("a", ["x.com", "x.com"])], "device_class_mappings: mapping 0 (a): deviceClassNames: 'x.com' is listed in"),
        (
            [("a", ["x.com"]), ("a", ["y.com"])],
            "device_class_mappings: mapping 1 (a): name: is that of another mapping",
        ),
        ([("cpu", ["x.com"])], "device_class_mappings: mapping 0 (cpu): name: counts no devices"),
        ([("a b", ["x.com"])], "device_class_mappings.0.name: String should match"),
        ([("a", ["X"])], "device_class_mappings: mapping 0 (a): deviceClassNames: 'X' is no name of a DeviceClass"),
        ([("a", [])], "device_class_mappings.0.deviceClassNames: Tuple should have at least 1 item"),
    ],
)
def test_mappings_of_classes_that_make_no_sense_are_refused(
    mappings: list[tuple[str, list[str]]], expected: str
) -> None:
    """A class in two mappings, one name twice, and what is no name of devices, are named with their place."""
    written = [{"name": name, "deviceClassNames": classes} for name, classes in mappings]
    assert refusal(None, {"device_class_mappings": written}).startswith(f"command line: {expected}")


def test_words_of_a_mapping_are_kueues(config: Path) -> None:
    """A key that is close is suggested."""
    config.write_text(yaml.safe_dump({"device_class_mappings": [{"name": "a", "deviceClassName": ["x.com"]}]}))
    assert "device_class_mappings.0.deviceClassName: there is no such setting; did you mean deviceClassNames?" in (
        refusal(config, {})
    )


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ({"topology_levels": [RACK], "topology_preset": "gke"}, "topology_levels and topology_preset (gke) contradict"),
        ({"topology_preset": "gce"}, "topology_preset: Input should be 'auto', 'none', 'gke'"),
        ({"calibration_config_map": "muster-calibration"}, "calibration_config_map: String should match pattern"),
    ],
)
def test_one_source_of_levels_and_one_config_map(overrides: dict[str, Any], expected: str) -> None:
    """A list and a preset together, an unknown preset, and a ConfigMap without namespace are refused."""
    assert refusal(None, overrides).startswith(f"command line: {expected}")


def test_limits_are_inclusive() -> None:
    """The smallest values that make sense are accepted."""
    smallest = {"debounce_seconds": 0, "observe_wait_seconds": 0, "report_delay_seconds": 0, "write_concurrency": 1}
    loaded = load_settings(None, smallest | {"backoff_initial_seconds": 5, "backoff_max_seconds": 5})
    assert (loaded.debounce_seconds, loaded.backoff_max_seconds) == (0, 5)


def test_settings_do_not_change() -> None:
    """A running process has one configuration: assignments are refused."""
    loaded = Settings()
    with pytest.raises(ValueError, match="frozen"):
        loaded.veto_seconds = 1  # type: ignore[misc]  # that is the point


SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.lists(st.text()))
FILES = st.one_of(
    st.binary(max_size=60),
    st.text(max_size=60).map(str.encode),
    st.dictionaries(st.sampled_from(sorted(Settings.model_fields)), SCALARS).map(yaml.safe_dump).map(str.encode),
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(FILES)
def test_any_file_is_read_or_refused(config: Path, content: bytes) -> None:
    """Whatever the file holds, it gives settings that hold together or the error that the command line reports."""
    config.write_bytes(content)
    with contextlib.suppress(SettingsError):
        loaded = load_settings(config, {})
        assert loaded.bind_hold_seconds < loaded.http_timeout_seconds < math.inf


def test_deep_nesting_is_an_error_of_the_file(tmp_path: Path) -> None:
    """A file that is nested deeper than can be read is refused with its name."""
    path = tmp_path / "settings.yaml"
    path.write_text("[" * 5000 + "]" * 5000, encoding="utf-8")
    with pytest.raises(SettingsError, match=str(path)):
        load_settings(path, {})
