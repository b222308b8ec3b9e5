"""Contents of each package compared with upstream's package, and the source of Debian's packages."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from lab.depot import apt, catalog, debian, docker_programs, recipes, signing, versions
from lab.depot.cache import DepotError, fresh
from lab.depot.golang import Recipe
from upstream.lock import load

pytestmark = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="dpkg-deb reads the packages back")


def pretend(recipe: Recipe, **sources: str) -> None:
    """Create files in place of a recipe's programs."""
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


def packed(repository: str, *kubernetes: str) -> dict[str, Path]:
    """Pack the packages of a repository in the lock around the fake programs."""
    found = catalog.debs([load().repositories[repository]], kubernetes)[repository]
    for each in found:
        for recipe in each.content.programs:
            if not recipe.directory.is_dir():
                pretend(recipe)
        each.pack()
    return {each.entry.name: each.path for each in found}


@pytest.fixture
def kubernetes(lab_cache: Path) -> dict[str, Path]:
    return packed("kubernetes-v1.36", "1.36.4")


def test_kubelet_and_kubeadm_packages_are_like_upstreams(kubernetes: dict[str, Path]) -> None:
    assert set(kubernetes) == {"kubelet", "kubeadm", "kubectl", "cri-tools", "kubernetes-cni"}
    assert fields(kubernetes["kubelet"])["Version"] == "1.36.4-1.1"
    assert "./usr/lib/systemd/system/kubelet.service" in contents(kubernetes["kubelet"])
    assert "./usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf" in contents(kubernetes["kubeadm"])
    assert "./opt/cni/bin/portmap" in contents(kubernetes["kubernetes-cni"])
    # Upstream's package does not start the kubelet.
    assert "deb-systemd-invoke" not in script(kubernetes["kubelet"], "postinst")


def test_a_packed_package_is_not_packed_again(kubernetes: dict[str, Path]) -> None:
    before = kubernetes["kubeadm"].stat().st_mtime_ns
    again = packed("kubernetes-v1.36", "1.36.4")

    assert again["kubeadm"].stat().st_mtime_ns == before


def test_a_version_that_is_not_built_is_omitted(lab_cache: Path) -> None:
    repositories = load().repositories.values()
    found = catalog.debs(repositories, ["1.37.1"])

    assert "kubernetes-v1.36" not in found
    names = {each.filename for each in found["kubernetes-v1.37"]}
    assert "kubelet_1.37.1-1.1_amd64.deb" in names and "kubelet_1.37.0-1.1_amd64.deb" not in names
    # If upstream's version of crictl can't be built, the package contains the nearest one, under the lock's version.
    crictl = next(each for each in found["kubernetes-v1.37"] if each.entry.name == "cri-tools")
    assert (crictl.entry.version, crictl.content.programs[0].version) == ("1.37.0-1.1", "v1.36.0")


def test_containerd_comes_with_dockers_conffile(lab_cache: Path) -> None:
    pretend(recipes.containerd("2.3.6"), **{"containerd.service": "[Service]\nExecStart=/usr/local/bin/containerd\n"})
    path = packed("docker-debian12")["containerd.io"]

    assert fields(path)["Version"] == "2.3.6-1~debian.12~bookworm"
    assert script(path, "conffiles") == "/etc/containerd/config.toml\n"
    assert {"./usr/bin/runc", "./usr/bin/ctr", "./usr/bin/containerd-shim-runc-v2"} < contents(path)
    argv = f"dpkg-deb --fsys-tarfile {path} | tar -xO ./etc/containerd/config.toml"
    config = subprocess.run(argv, shell=True, check=True, capture_output=True, text=True).stdout
    assert 'disabled_plugins = ["cri"]' in config.splitlines()
    argv = f"dpkg-deb --fsys-tarfile {path} | tar -xO ./lib/systemd/system/containerd.service"
    unit = subprocess.run(argv, shell=True, check=True, capture_output=True, text=True).stdout
    assert "ExecStart=/usr/bin/containerd" in unit
    assert "deb-systemd-invoke $action containerd.service" in script(path, "postinst")


def test_an_unsupported_package_is_an_empty_placeholder(lab_cache: Path) -> None:
    pretend(recipes.containerd("2.3.6"), **{"containerd.service": ""})
    path = packed("docker-debian12")["docker-ce"]

    assert contents(path) == set()
    assert "Placeholder for docker-ce" in fields(path)["Description"]
    assert "It is empty" in apt.control(path)
    # The epoch is part of the version, but not of the file name.
    assert fields(path)["Version"].startswith("5:") and ":" not in path.name


def test_docker_plugins_are_where_the_docker_cli_looks_for_them(lab_cache: Path) -> None:
    pretend(recipes.containerd("2.3.6"), **{"containerd.service": ""})
    assert contents(packed("docker-debian13")["docker-buildx-plugin"]) == set(), "it is not built"
    for recipe in docker_programs.plugins("29.8.2").values():
        pretend(recipe)
    for path in (packed(f"docker-{name}") for name in ("debian12", "debian13", "ubuntu2604")):
        for name in ("docker-buildx", "docker-compose"):
            assert contents(path[f"{name}-plugin"]) == {f"./usr/libexec/docker/cli-plugins/{name}"}


def test_the_container_toolkit_runs_upstreams_own_postinst(lab_cache: Path) -> None:
    units = ("nvidia-cdi-refresh.service", "nvidia-cdi-refresh.path", "nvidia-cdi-refresh.env")
    texts = {f"deployments/systemd/{name}": "x\n" for name in (*units, "10-container-engines.conf")}
    texts["deployments/udev/99-nvidia-cdi-refresh.rules"] = "x\n"
    hook = "#!/bin/sh\nset -e\nupstream\n#DEBHELPER#\n"
    for name in ("nvidia-container-toolkit-base.postinst", "nvidia-container-toolkit.postinst"):
        texts[f"packaging/debian/{name}"] = hook
    texts["packaging/debian/nvidia-container-toolkit.postrm"] = hook
    *older, version = versions.table()["nvidia_container_toolkit"]
    for each in (*older, version):
        pretend(recipes.container_toolkit(each), **texts)
    found = packed("container-toolkit")

    postinst = script(found["nvidia-container-toolkit-base"], "postinst")
    assert postinst.startswith("#!/bin/sh\nset -e\nupstream\n")
    assert "deb-systemd-helper enable nvidia-cdi-refresh.path" in postinst
    assert "#DEBHELPER#" not in postinst
    assert f"nvidia-container-toolkit-base (= {version}-1)" in fields(found["nvidia-container-toolkit"])["Depends"]
    assert "Placeholder" in fields(found["libnvidia-container1"])["Description"]


def test_the_keyring_package_has_the_key_and_address_of_its_repository(lab_cache: Path) -> None:
    for name in ("cuda-debian12", "cuda-debian13"):
        repository = load().repositories[name]
        directory = signing.directory(repository.key)
        directory.mkdir(parents=True)
        (directory / "public.gpg").write_bytes(name.encode())
        (directory / "public.asc").write_text(name)
        (keyring,) = (each for each in catalog.debs([repository], [])[name] if each.entry.name == "cuda-keyring")
        keyring.pack()
        root = lab_cache / name
        subprocess.run(["dpkg-deb", "-x", keyring.path, root], check=True)

        assert (root / "usr/share/keyrings/cuda-archive-keyring.gpg").read_bytes() == name.encode()
        assert repository.url in (root / f"etc/apt/sources.list.d/{name}-x86_64.list").read_text()


def test_an_unknown_kubernetes_version_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(DepotError, match=r"1\.36\.4"):
        versions.check_kubernetes("1.2.3")


def test_an_image_that_upstream_lacks_is_an_error() -> None:
    with pytest.raises(DepotError, match="lock does not have it"):
        versions.check_image("registry.k8s.io/pause:9.9")


def test_each_containerd_version_of_the_product_can_be_built() -> None:
    assert set(versions.table()["containerd"]) <= set(versions.RUNC)


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
def test_debian_packages_come_from_the_hosts_own_mirror(
    tmp_path: Path, files: dict[str, str], mirror: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(debian.MIRROR_VARIABLE, raising=False)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)

    assert debian.mirror(tmp_path) == mirror


def test_on_a_host_without_debian_the_error_names_the_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(debian.MIRROR_VARIABLE, raising=False)
    (tmp_path / "sources.list").write_text("deb http://u.example/ubuntu noble main\n")
    with pytest.raises(DepotError, match="--debian-mirror"):
        debian.mirror(tmp_path)

    monkeypatch.setenv(debian.MIRROR_VARIABLE, "http://chosen.example/debian/")
    assert debian.mirror(tmp_path) == "http://chosen.example/debian"
