"""Write docs/variables.md, docs/cuda.md, docs/reference/ and README.md's table of versions.

With ``--check`` say if they are current.
"""

from __future__ import annotations

import difflib
import importlib
import json
import re
import runpy
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import reference
import yaml

ROOT = Path(__file__).resolve().parents[1]
ROLES = (
    "cluster",
    "preflight",
    "plan",
    "host",
    "nvidia_driver",
    "nvidia_driver_upgrade",
    "nvidia_driver_installer",
    "containerd",
    "nvidia_container_toolkit",
    "kubeadm",
    "flannel",
    "gpu_sharing",
    "nvidia_device_plugin",
    "dcgm_exporter",
    "gpu_operator",
    "acceptance",
    "report",
    "drift",
    "gpu_isolation",
    "cuda_toolkit",
    "docker",
    "minikube",
    "torch_ddp",
    "nfs_server",
    "nfs_cache",
    "local_path",
    "wandb_launch",
)
BEGIN, END = "<!-- versions: written by docs/generate.py -->", "<!-- end of versions -->"
HEAD = """\
# Variables

Written by `make docs` from the roles' argument specifications; don't edit it by hand.
Set variables in the inventory or its group_vars. All roles share the variables of `cluster`. Don't set variables whose
names begin with `_`.
"""

CUDA = ROOT / "plugins" / "plugin_utils" / "_cuda" / "data.py"
# Those that NVIDIA supports or that hosts still have; no release has a higher number than this one.
MATRIX_BRANCHES, NEWEST = ("470", "535", "550", "570", "580", "590", "595", "610"), 999
MATRIX_HEAD = """\
The table shows how the newest releases of a driver branch run a toolkit: *native*; *minor*, through minor version
compatibility, with the limitations below; *forward*, with the package for forward compatibility, only on data-center
GPUs; *no*, not supported or unknown. Before the role `cuda_toolkit` installs a release, it checks that the driver and
GPUs of the host support it.
"""
CUDA_HEAD = """\
# CUDA, drivers and GPUs

Written by `make docs` from `plugins/plugin_utils/_cuda/data.py`; don't edit it by hand. The filters
`gpulab.kubernetes.cuda_compatibility` and `gpulab.kubernetes.gpu_family`, the test
`gpulab.kubernetes.cuda_supported_by` and preflight use the same data. All driver versions are for Linux.
"""


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def markdown(text: str) -> str:
    """Turn Ansible's markup (``C(...)``, ``O(...)``, ``V(...)``, ``B(...)``, ``L(...)``, ``U(...)``) into Markdown."""
    text = re.sub(r"\bP\(([^)#]*)(?:#\w+)?\)", r"`\1`", text)
    text = re.sub(r"\b(?:[COVE]|RV)\(([^)]*)\)", r"`\1`", text)
    text = re.sub(r"\bB\(([^)]*)\)", r"**\1**", text)
    text = re.sub(r"\bI\(([^)]*)\)", r"*\1*", text)
    text = re.sub(r"\bL\(([^,)]*), *([^)]*)\)", r"[\1](\2)", text)
    text = re.sub(r"\bM\(([^)]*)\)", r"`\1`", text)
    return re.sub(r"\bU\(([^)]*)\)", r"\1", text)


def sentences(description: str | list[str]) -> str:
    parts = [description] if isinstance(description, str) else description
    return " ".join(" ".join(part.split()) for part in parts)


def cell(text: str) -> str:
    return text.replace("|", "\\|")


def shown(value: Any) -> str:
    """Return a default as a person would write it, one line, in code."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"`{cell(' '.join(text.split()))}`" if text != "" else "empty"


def row(name: str, option: dict[str, Any]) -> str:
    kind = option.get("type", "str")
    if "elements" in option:
        kind += f" of {option['elements']}"
    if "default" in option:
        default = shown(option["default"])
    else:
        default = "**required**" if option.get("required") else "not set"
    text = markdown(sentences(option.get("description", "")))
    if "choices" in option:
        text += " One of " + ", ".join(shown(choice) for choice in option["choices"]) + "."
    return f"| `{name}` | {kind} | {default} | {cell(text)} |"


def variables() -> str:
    parts, default = [HEAD], defaults()
    for role in ROLES:
        path = ROOT / "roles" / role / "meta" / "argument_specs.yml"
        if not path.is_file():
            continue
        spec = reference.main_entry(load(path)["argument_specs"])
        parts.append(f"## {role}\n\n{spec['short_description'].rstrip('.')}.\n")
        options: dict[str, dict[str, Any]] = spec.get("options") or {}
        own = {
            name: option | {"default": default[name]} if name in default else option
            for name, option in options.items()
            if name.startswith(role)
        }
        if own:
            rows = "\n".join(row(name, option) for name, option in own.items())
            parts.append(f"| variable | type | default | what it is |\n| --- | --- | --- | --- |\n{rows}\n")
    return "\n".join(parts)


def versions() -> str:
    """Return the README's table of versions, from the one table that the roles use."""
    table = load(ROOT / "roles" / "cluster" / "vars" / "main" / "versions.yml")
    known, default = table["cluster_versions"], defaults()

    def listed(component: str, variable: str) -> str:
        chosen = default.get(variable)
        return ", ".join(f"**{v}**" if v == chosen else v for v in known[component])

    def drivers() -> str:
        """Return the versions of the driver, with the distributions that have them where not all do."""
        everywhere = table["cluster_distributions"]
        found = []
        for version, entry in known["nvidia_driver"].items():
            systems = [system for system in everywhere if system in entry["packages"]]
            found.append(version if systems == everywhere else f"{version} ({', '.join(systems)})")
        return f"{', '.join(found)}; by default, the newest version that suits all hosts of a pool"

    rows = [
        ("Hosts", ", ".join(table["cluster_distributions"]) + " (amd64)"),
        ("Kubernetes", listed("kubernetes", "cluster_kubernetes_version")),
        ("containerd.io", listed("containerd", "containerd_version")),
        ("NVIDIA driver", drivers()),
        ("NVIDIA container toolkit", listed("nvidia_container_toolkit", "nvidia_container_toolkit_version")),
        ("NVIDIA device plugin and GPU feature discovery", str(known["nvidia_device_plugin"]).lstrip("v")),
        ("Node Feature Discovery", str(known["node_feature_discovery"]).lstrip("v")),
        ("flannel", str(known["flannel"]).lstrip("v")),
    ]
    body = "\n".join(f"| {name} | {text} |" for name, text in rows)
    return f"| what | versions (**default**) |\n| --- | --- |\n{body}"


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    names = list(head)
    lines = [names, ["---"] * len(names), *([cell(str(value)) for value in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def cuda() -> str:
    """Return the page about CUDA, from the one table that the plugins use."""
    data = runpy.run_path(str(CUDA))
    toolkits = [
        (t.version, " · ".join(f"{t.version}.{n}: {d}" for n, d in enumerate(t.drivers, t.first)), ", ".join(t.sources))
        if not t.any_update
        else (t.version, f"all: {t.drivers[0]}", ", ".join(t.sources))
        for t in data["TOOLKITS"]
    ]
    minor = [(f"{m.major}.x", m.driver, ", ".join(m.sources)) for m in data["MINOR_VERSIONS"]]
    forward = [
        (f"cuda-compat-{f.toolkit.replace('.', '-')}", listed(f.branches), listed(f.ended), ", ".join(f.sources))
        for f in data["FORWARD"]
    ]
    families = [
        (
            f.name,
            f.chips,
            between(f.first_branch, f.last_branch),
            between(f.first_toolkit, f.last_toolkit),
            f.open_modules,
            ", ".join(f.sources),
        )
        for f in data["FAMILIES"]
    ]
    parts = [
        CUDA_HEAD,
        "## Toolkits by driver branch\n",
        MATRIX_HEAD,
        table(("CUDA", *MATRIX_BRANCHES), matrix(data["TOOLKITS"])),
        "## Native: the driver that each toolkit requires\n",
        table(("CUDA", "minimum driver by release", "sources"), toolkits),
        "Newer drivers also run older toolkits.\n",
        "## Minor version compatibility\n",
        "With at least this driver, all toolkits of a major version run. A driver older than the toolkit's own doesn't "
        "compile\nPTX of that toolkit, and lacks features.\n",
        table(("CUDA", "minimum driver", "sources"), minor),
        "## Forward compatibility (data-center GPUs only)\n",
        "The package works with these driver branches. NVIDIA supported it with the ended branches when it was "
        "released, but\nno longer lists them.\n",
        table(("package", "driver branches", "ended branches", "sources"), forward),
        "## GPUs\n",
        table(("architecture", "chips", "driver branches", "toolkits with code", "open modules", "sources"), families),
        "## Sources\n",
        "\n".join(f"- {name}: {address}" for name, address in data["SOURCES"].items()) + "\n",
    ]
    return "\n".join(parts)


def matrix(toolkits: Iterable[Any]) -> list[tuple[str, ...]]:
    """Return a row for each toolkit since 11.0: what the newest releases of each driver branch make of it."""
    judge = compatibility().judge
    words = {"native": "native", "minor_version_compatibility": "minor", "forward_compatibility": "forward"}
    rows = []
    for toolkit in toolkits:
        if int(toolkit.version.split(".")[0]) >= 11:
            release = f"{toolkit.version}.{toolkit.first}"
            kinds = [judge(release, f"{branch}.{NEWEST}").kind for branch in MATRIX_BRANCHES]
            rows.append((toolkit.version, *(words.get(kind, "no") for kind in kinds)))
    return rows


def compatibility() -> Any:
    """Return the module that judges, by its name in the collection."""
    sys.path.insert(0, str(ROOT / "collections"))
    packages: Any = importlib.import_module("ansible_collections")
    # The package "ansible" may have brought a regular package of this name, which hides the other.
    if isinstance(packages.__path__, list):
        packages.__path__.insert(0, str(ROOT / "collections" / "ansible_collections"))
    return importlib.import_module("ansible_collections.gpulab.kubernetes.plugins.plugin_utils._cuda.compatibility")


def listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"


def between(first: object, last: object) -> str:
    if first and last:
        return f"{first} to {last}"
    return f"from {first}" if first else f"to {last}" if last else "all"


def defaults() -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for path in sorted(ROOT.glob("roles/*/defaults/main.yml")):
        merged.update(load(path) or {})
    return merged


def readme() -> str:
    text = (ROOT / "README.md").read_text()
    before, rest = text.split(BEGIN, 1)
    return f"{before}{BEGIN}\n\n{versions()}\n\n{END}{rest.split(END, 1)[1]}"


def main() -> int:
    check, stale = "--check" in sys.argv[1:], False
    docs = ROOT / "docs"
    tools = {"markdown": markdown, "sentences": sentences, "shown": shown, "table": table}
    pages = {docs / "variables.md": variables(), docs / "cuda.md": cuda(), ROOT / "README.md": readme()}
    pages |= reference.pages(ROOT, tools)
    for path, wanted in pages.items():
        current = path.read_text() if path.is_file() else ""
        if current == wanted:
            continue
        stale = True
        if check:
            name = str(path.relative_to(ROOT))
            lines = difflib.unified_diff(current.splitlines(), wanted.splitlines(), name, "generated", lineterm="", n=0)
            sys.stdout.write("\n".join(lines) + f"\n{name} is not current: run `make docs`\n")
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(wanted)
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
