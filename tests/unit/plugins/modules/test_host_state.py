# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.testing import patch_module_args
from ansible_collections.gpulab.kubernetes.plugins.module_utils._module import QuietModule
from ansible_collections.gpulab.kubernetes.plugins.module_utils._states import several
from ansible_collections.gpulab.kubernetes.plugins.modules import cluster_state, host_state
from verbosity import verbosity

Run = Callable[..., dict[str, Any]]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "proc").mkdir(parents=True)
    (root / "proc/modules").write_text("")
    (root / "proc/swaps").write_text("Filename Type Size Used Priority\n")
    return root


def file(root: Path, name: str, content: str = "x\n") -> dict[str, Any]:
    args = {"files": [{"path": f"/etc/{name}", "content": f"# Managed by gpulab.kubernetes\n{content}"}]}
    return {"name": name, "module": "managed_files", "args": {**args, "root": str(root), "run_dir": str(root / "run")}}


def swap(root: Path) -> dict[str, Any]:
    return {"name": "swap", "module": "swap", "args": {"root": str(root)}}


def test_each_state_has_a_result_and_the_order_is_kept(run_module: Run, root: Path) -> None:
    states = [file(root, "one"), swap(root), file(root, "two")]
    predicted = run_module("host_state", {"states": states}, check=True)
    assert predicted["changed"] and not (root / "etc").exists()
    done = run_module("host_state", {"states": states})
    assert {name: result["changed"] for name, result in done["states"].items()} == {
        "one": True,
        "swap": False,
        "two": True,
    }
    assert predicted["states"] == done["states"]
    assert [entry["after_header"] for entry in done["diff"]] == [str(root / "etc" / name) for name in ("one", "two")]
    assert (root / "etc/two").read_text().endswith("x\n")
    again = run_module("host_state", {"states": states})
    assert not again["changed"] and again["diff"] == []


def test_a_state_returns_the_result_of_its_module(run_module: Run, root: Path) -> None:
    entry = file(root, "one")
    alone = run_module("managed_files", entry["args"], check=True)
    assert run_module("host_state", {"states": [entry]}, check=True)["states"]["one"].items() <= alone.items()


def test_the_first_failure_ends_the_module_and_is_named(run_module: Run, root: Path) -> None:
    (root / "etc").mkdir()
    (root / "etc/two").mkdir()
    result = run_module("host_state", {"states": [file(root, "one"), file(root, "two"), file(root, "three")]})
    assert result["failed"] and result["failed_state"] == "two" and result["msg"].startswith("two: Error while ")
    assert list(result["states"]) == ["one"] and not (root / "etc/three").exists()


def test_with_v_the_commands_of_all_states_are_listed_and_a_failure_has_its_own(
    run_module: Run, root: Path, programs: Any
) -> None:
    unit = "LoadState=loaded\\nActiveState=inactive\\nUnitFileState=enabled\\n"
    body = f"""[ "$1" = show ] && {{ printf '{unit}'; exit; }}
if [ "$2" = two.service ]; then echo "boom http://ci:S3CRET@proxy:3128" >&2; exit 3; fi"""
    programs.add("systemctl", body)
    programs.add("journalctl", "echo WANDB_API_KEY=S3CRET")
    states = [
        {"name": name, "module": "managed_service", "args": {"name": name, "run_dir": str(root)}}
        for name in ("one", "two", "three")
    ]
    for level in (0, 1, 3):
        result = run_module("host_state", {"states": states, **verbosity(level)})
        assert (result["failed_state"], result["cmd"], result["rc"]) == ("two", "systemctl start two.service", 3)
        assert result["stderr"] == "boom http://********@proxy:3128\n"
        assert "S3CRET" not in str(result) and "WANDB_API_KEY=********" in result["msg"]
        ran = [command.split(",")[0] for command in result.get("commands", [])]
        assert [each for each in ran if " show " not in each] == [
            "systemctl start one.service (exit status 0",
            "systemctl start two.service (exit status 3",
            "journalctl --unit two.service --lines 15 --output cat --no-pager (exit status 0",
        ] * bool(level)
        assert bool(level) == any(" show " in each and each.endswith("one.service (exit status 0") for each in ran)


def test_states_after_one_that_requires_a_reboot_are_skipped() -> None:
    state = SimpleNamespace(
        SPECIFICATION={"argument_spec": {}}, ensure=lambda module: {"changed": True, "reboot_required": True}
    )
    entries: list[dict[str, Any]] = [
        {"name": name, "module": "state", "when": True, "args": {}} for name in ("one", "two")
    ]
    module = SimpleNamespace(params={"states": entries}, no_log_values=set())
    result = several.ensure(module, {"state": state})
    assert result["changed"] and list(result["states"]) == ["one"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"module": "no_such"}, "value of module must be one of: apt_packages,"),
        ({"args": {"no_such": 1}}, "; unsupported: no_such. Supported parameters include: "),
        ({"args": {}}, "two: managed_files: missing required arguments: files"),
        ({"name": "one"}, "Error while reading states: one: each needs a unique name"),
        ({"name": "one", "when": False}, "Error while reading states: one: each needs a unique name"),
    ],
)
def test_invalid_arguments_are_reported_before_anything_changes(
    run_module: Run, root: Path, change: dict[str, Any], said: str
) -> None:
    result = run_module("host_state", {"states": [file(root, "one"), {**file(root, "two"), **change}]})
    assert result["failed"] and said in result["msg"]
    assert not (root / "etc").exists()


UNKNOWN = "Error while reading {}: there is no state {}. Use the names in states: one, two, three."
EMPTY = "Error while reading states: none is selected. Specify at least one state in states and only."


@pytest.mark.parametrize(
    ("options", "applied"),
    [
        ({"only": ["three", "one"]}, ["one", "three"]),
        ({"except": ["two"]}, ["one", "three"]),
        ({"except": []}, ["one", "three"]),
        # Its `when` is false, so it is not applied.
        ({"only": ["two"]}, []),
    ],
)
def test_only_selected_states_are_applied(
    run_module: Run, root: Path, options: dict[str, Any], applied: list[str]
) -> None:
    states = [file(root, "one"), {**file(root, "two"), "when": False}, file(root, "three")]
    assert list(run_module("host_state", {"states": states, **options})["states"]) == applied
    assert sorted(path.name for path in root.glob("etc/*")) == applied


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"only": ["one", "fuor"]}, UNKNOWN.format("only", "fuor")),
        ({"except": ["fuor", "five"]}, UNKNOWN.format("except", "fuor, five")),
        ({"only": ["one"], "except": ["two"]}, "parameters are mutually exclusive: only|except"),
        ({"only": []}, EMPTY),
        ({"except": ["one", "two", "three"]}, EMPTY),
        ({"states": []}, EMPTY),
    ],
)
def test_a_selection_without_a_matching_state_is_refused(
    run_module: Run, root: Path, options: dict[str, Any], message: str
) -> None:
    states = [file(root, name) for name in ("one", "two", "three")]
    result = run_module("host_state", {"states": states, **options})
    assert result["failed"] and result["msg"] == message
    assert not (root / "etc").exists()


@pytest.mark.parametrize("module", [host_state, cluster_state])
def test_the_documentation_lists_the_modules_that_are_available_as_states(module: Any) -> None:
    documented = yaml.safe_load(module.DOCUMENTATION)["options"]["states"]["suboptions"]["module"]["choices"]
    assert documented == list(module.STATES)


def test_secrets_of_a_state_are_not_shown(run_module: Run, root: Path) -> None:
    join = {"module": "kubeadm_join", "name": "join"}
    args = {"token": "abcdef.0123456789abcdef", "root": str(root), "executable": "/no/kubeadm"}
    result = run_module("host_state", {"states": [{**join, "args": args}]})
    assert result["failed"] and "0123456789abcdef" not in str(result)


APT = {
    "lock_timeout": 5,
    "http_proxy": "http://user:S3CRET-proxy@proxy.example.org:3128",
    "no_proxy": ["mirror.example.org"],
    "credentials": [{"machine": "mirror.example.org", "username": "ci", "password": "S3CRET-apt"}],
}
SHARED = {"lock_timeout": 5, "http_proxy": APT["http_proxy"], "https_proxy": "", "no_proxy": APT["no_proxy"]}
WITH_CREDENTIALS = {**SHARED, "credentials": APT["credentials"]}
SOURCE = {"name": "x", "uris": "http://mirror.example.org", "key_url": "http://mirror.example.org/key"}


@pytest.mark.parametrize(
    ("module", "args", "apt", "expected"),
    [
        ("apt_packages", {"packages": []}, APT, {**SHARED, "credentials": "no such option"}),
        ("apt_source", SOURCE, APT, WITH_CREDENTIALS),
        ("apt_source", {**SOURCE, "lock_timeout": 7}, APT, {**WITH_CREDENTIALS, "lock_timeout": 7}),
        ("apt_source", {**SOURCE, "credentials": []}, APT, {**SHARED, "credentials": []}),
        ("apt_source", {**SOURCE, "http_proxy": ""}, APT, {**WITH_CREDENTIALS, "http_proxy": ""}),
        ("apt_source", SOURCE, {"no_proxy": ["a"]}, {"lock_timeout": 900, "no_proxy": ["a"], "credentials": None}),
        ("apt_packages", {"packages": []}, None, {"lock_timeout": 900, "http_proxy": ""}),
        # A state without packages or sources has none of these options.
        ("swap", {}, APT, dict.fromkeys(APT, "no such option")),
    ],
)
def test_apt_states_share_their_options(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    module: str,
    args: dict[str, Any],
    apt: dict[str, Any] | None,
    expected: dict[str, Any],
) -> None:
    seen: dict[str, Any] = {}

    def ensure(part: Any) -> dict[str, Any]:
        seen.update(part.params)
        return {"changed": False, "said": dict(part.params)}

    monkeypatch.setattr(host_state.STATES[module], "ensure", ensure)
    states = [{"name": "one", "module": module, "args": args}]
    with patch_module_args({"states": states, **({} if apt is None else {"apt": apt})}), pytest.raises(SystemExit):
        host_state.main()
    assert {name: seen.get(name, "no such option") for name in expected} == expected
    said = capsys.readouterr().out
    assert '"said"' in said and "S3CRET" not in said


def test_a_shared_option_is_checked(run_module: Run) -> None:
    result = run_module("host_state", {"states": [], "apt": {"packages": []}})
    assert result["failed"] and "apt.packages" in result["msg"]


def test_secret_content_is_not_shown_if_a_state_fails(run_module: Run, root: Path) -> None:
    (root / "etc").mkdir()
    (root / "etc/one").mkdir()
    entry = file(root, "two")
    entry["args"]["files"][0] |= {"content": "", "secret_content": "PROXY=S3CRET\n", "mode": "0600"}
    for states, fails in (([file(root, "one"), entry], True), ([entry], False)):
        result = run_module("host_state", {"states": states})
        assert bool(result.get("failed")) == fails and "S3CRET" not in str(result)
    assert (root / "etc/two").read_text() == "PROXY=S3CRET\n"


def test_arguments_are_not_written_to_the_hosts_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ansible would log them before it knows which parts of a state are secret."""
    written: list[str] = []
    monkeypatch.setattr(AnsibleModule, "log", lambda self, message, log_args=None: written.append(message))
    for kind, count in ((AnsibleModule, 1), (QuietModule, 0)):
        written.clear()
        with patch_module_args({"states": [], "_ansible_no_log": False}):
            kind(argument_spec={"states": {"type": "list"}})
        assert len(written) == count
