"""What each package promises, next to what upstream's package promises; and where Debian comes from."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from lab.depot import apt, debian, packages, recipes, signing, versions
from lab.depot.cache import DepotError, fresh
from lab.depot.golang import Recipe

pytestmark = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="dpkg-deb reads the packages back")


def pretend(recipe: Recipe, **sources: str) -> None:
    """Put files where a recipe's programs would be."""
    with fresh(recipe.directory, recipe.key) as work:
        for name in recipe.programs:
            (work / name).write_text("#!/bin/sh\n")
            (work / name).chmod(0o755)
        for name, text in sources.items():
            path = work / "source" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


def fields(package: Path) -> dict[str, str]:
    return dict(re.findall(r"^(\S+): (.*)$", apt.control(package), re.MULTILINE))


def contents(package: Path) -> set[str]:
    listed = subprocess.run(["dpkg-deb", "-c", package], check=True, capture_output=True, text=True).stdout
    return {line.split(maxsplit=5)[5] for line in listed.splitlines() if not line.endswith("/")}


def script(package: Path, name: str) -> str:
    return subprocess.run(["dpkg-deb", "-I", package, name], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def kubernetes(lab_cache: Path) -> dict[str, Path]:
    pretend(recipes.kubernetes("1.36.4"))
    wanted = versions.kubernetes_packages("1.36.4")
    pretend(recipes.crictl(versions.crictl(wanted["cri-tools"])))
    pretend(recipes.cni_plugins(versions.upstream(wanted["kubernetes-cni"])))
    made = packages.kubernetes("1.36.4")
    for package in made:
        package.build()
    return {package.path.name.split("_")[0]: package.path for package in made}


def test_kubernetes_packages_have_the_versions_of_the_table(kubernetes: dict[str, Path]) -> None:
    wanted = versions.kubernetes_packages("1.36.4")

    assert {name: fields(path)["Version"] for name, path in kubernetes.items()} == wanted


def test_kubelet_and_kubeadm_relate_as_upstream(kubernetes: dict[str, Path]) -> None:
    depends = fields(kubernetes["kubelet"])["Depends"]
    assert [part.split()[0] for part in depends.split(", ")] == ["kubernetes-cni", "iptables", "mount", "util-linux"]
    assert "Depends" not in fields(kubernetes["kubeadm"])
    assert "./usr/lib/systemd/system/kubelet.service" in contents(kubernetes["kubelet"])
    assert "./usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf" in contents(kubernetes["kubeadm"])
    assert "./opt/cni/bin/portmap" in contents(kubernetes["kubernetes-cni"])
    # Upstream's package doesn't start kubelet; whoever wants it says so.
    assert "deb-systemd-invoke" not in script(kubernetes["kubelet"], "postinst")


def test_a_packed_package_is_not_packed_again(kubernetes: dict[str, Path]) -> None:
    before = kubernetes["kubeadm"].stat().st_mtime_ns
    again = packages.kubernetes("1.36.4")
    for package in again:
        assert package.is_packed
        package.build()

    assert kubernetes["kubeadm"].stat().st_mtime_ns == before


def test_containerd_comes_with_dockers_conffile(lab_cache: Path) -> None:
    runtime, runc = recipes.containerd("2.3.6"), recipes.runc("2.3.6")
    pretend(runtime, **{"containerd.service": "[Service]\nExecStart=/usr/local/bin/containerd\n"})
    pretend(runc)
    package = packages.containerd("2.3.6", "2.3.6-1~debian.12~bookworm")
    package.build()

    assert script(package.path, "conffiles") == "/etc/containerd/config.toml\n"
    assert fields(package.path)["Conflicts"] == "containerd, runc"
    assert {"./usr/bin/runc", "./usr/bin/ctr", "./usr/bin/containerd-shim-runc-v2"} < contents(package.path)
    argv = f"dpkg-deb --fsys-tarfile {package.path} | tar -xO ./etc/containerd/config.toml"
    config = subprocess.run(argv, shell=True, check=True, capture_output=True, text=True).stdout
    assert 'disabled_plugins = ["cri"]' in config.splitlines()
    argv = f"dpkg-deb --fsys-tarfile {package.path} | tar -xO ./lib/systemd/system/containerd.service"
    unit = subprocess.run(argv, shell=True, check=True, capture_output=True, text=True).stdout
    assert "ExecStart=/usr/bin/containerd" in unit
    assert "deb-systemd-invoke $action containerd.service" in script(package.path, "postinst")


def test_the_toolkit_runs_upstreams_own_postinst(lab_cache: Path) -> None:
    units = ("nvidia-cdi-refresh.service", "nvidia-cdi-refresh.path", "nvidia-cdi-refresh.env")
    texts = {f"deployments/systemd/{name}": "x\n" for name in (*units, "10-container-engines.conf")}
    texts["deployments/udev/99-nvidia-cdi-refresh.rules"] = "x\n"
    hook = "#!/bin/sh\nset -e\nupstream\n#DEBHELPER#\n"
    for name in ("nvidia-container-toolkit-base.postinst", "nvidia-container-toolkit.postinst"):
        texts[f"packaging/debian/{name}"] = hook
    texts["packaging/debian/nvidia-container-toolkit.postrm"] = hook
    pretend(recipes.container_toolkit("1.20.1"), **texts)
    made = packages.container_toolkit("1.20.1", "1.20.1-1")
    for package in made:
        package.build()
    found = {package.path.name.split("_")[0]: package.path for package in made}

    postinst = script(found["nvidia-container-toolkit-base"], "postinst")
    assert postinst.startswith("#!/bin/sh\nset -e\nupstream\n")
    assert "deb-systemd-helper enable nvidia-cdi-refresh.path" in postinst
    assert "#DEBHELPER#" not in postinst
    assert "nvidia-container-toolkit-base (= 1.20.1-1)" in fields(found["nvidia-container-toolkit"])["Depends"]
    assert "Placeholder" in fields(found["libnvidia-container1"])["Description"]


def test_the_keyring_belongs_to_its_distribution(lab_cache: Path) -> None:
    signing.directory().mkdir(parents=True)
    signing.binary().write_bytes(b"key")
    for distribution in ("debian12", "debian13"):
        package = packages.cuda_keyring(distribution)
        package.build()

        assert package.path.name == "cuda-keyring_1.1-1_all.deb"
        assert f"./etc/apt/sources.list.d/cuda-{distribution}-x86_64.list" in contents(package.path)
        assert "./usr/share/keyrings/cuda-archive-keyring.gpg" in contents(package.path)


def test_an_unknown_kubernetes_version_names_the_known_ones() -> None:
    with pytest.raises(DepotError, match=r"1\.36\.4"):
        versions.kubernetes_packages("1.2.3")


@pytest.mark.parametrize("version", list(versions.containerd_packages()))
def test_each_containerd_has_its_runc_and_its_distributions(version: str) -> None:
    assert version in versions.RUNC
    known = versions.containerd_packages()[version]
    for name, _system, codename, _cuda in versions.DISTRIBUTIONS:
        assert known[name].endswith(f"~{codename}")


DEB822 = """\
Types: deb
# a remark
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://mirror.example/debian-security
Suites: bookworm-security
"""


@pytest.mark.parametrize(
    ("files", "mirror"),
    [
        ({"sources.list.d/debian.sources": DEB822}, "http://mirror.example/debian"),
        ({"sources.list": "deb http://m.example/debian/ trixie main\n"}, "http://m.example/debian"),
        (
            {"sources.list": "deb [arch=amd64 signed-by=/k] https://m.example/debian trixie main\n"},
            "https://m.example/debian",
        ),
        (
            {
                "sources.list": "# deb http://old.example/debian bookworm main\n"
                "deb https://other.example/apt stable main\ndeb http://m.example/debian bookworm main\n"
            },
            "http://m.example/debian",
        ),
        (
            {
                "sources.list.d/debian.sources": f"Enabled: no\n{DEB822}",
                "sources.list": "deb http://n.example/debian sid main\n",
            },
            "http://n.example/debian",
        ),
    ],
)
def test_debian_comes_from_where_the_host_has_it(
    tmp_path: Path, files: dict[str, str], mirror: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(debian.MIRROR_VARIABLE, raising=False)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)

    assert debian.mirror(tmp_path) == mirror


def test_a_host_without_debian_is_told_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(debian.MIRROR_VARIABLE, raising=False)
    (tmp_path / "sources.list").write_text("deb http://u.example/ubuntu noble main\n")
    with pytest.raises(DepotError, match="--debian-mirror"):
        debian.mirror(tmp_path)

    monkeypatch.setenv(debian.MIRROR_VARIABLE, "http://chosen.example/debian/")
    assert debian.mirror(tmp_path) == "http://chosen.example/debian"
