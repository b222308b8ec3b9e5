# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

CONFIG = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\n"
IMAGES = ["mirror/kube-apiserver:v1.36.4", "mirror/etcd:3.6.8-0"]
KUBEADM = (
    """[ "$1 $2 $3 $4" = "config images list --config" ] && grep -q InitConfiguration "$5" && printf '%s\\n' {images}"""
)
# A pulled image is a file; a pull fails as often as the file "fails" says.
CRICTL = """echo "$*" >> {here}/log
place={here}/store/$(echo "$2$3" | tr -d / | sed s/--quiet//)
case $1 in
  inspecti) test -e "$place" ;;
  pull)
    if [ -s {here}/fails ]; then sed -i 1d {here}/fails; echo "no such host" >&2; exit 1; fi
    touch "$place" ;;
esac"""


class Host:
    def __init__(self, here: Path, programs: Any, run: Any) -> None:
        self.here, self.run_module = here, run
        (here / "store").mkdir(parents=True)
        programs.add("kubeadm", KUBEADM.replace("{images}", " ".join(IMAGES)))
        programs.add("crictl", CRICTL.replace("{here}", str(here)))
        programs.add("sync", f'echo "sync $*" >> {here}/log')

    def run(self, check: bool = False, **options: Any) -> dict[str, Any]:
        given = {"config": CONFIG, "root": str(self.here / "root"), **options}
        given = {name: value for name, value in given.items() if value is not None}
        result: dict[str, Any] = self.run_module("kubeadm_images", given, check=check)
        return result

    def pulls(self) -> list[str]:
        path = self.here / "log"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line.partition(" ")[2] for line in lines if line.startswith("pull ")]


@pytest.fixture
def host(tmp_path: Path, programs: Any, run_module: Any) -> Host:
    return Host(tmp_path / "host", programs, run_module)


def test_images_are_pulled_once(host: Host) -> None:
    predicted = host.run(check=True)
    assert (predicted["changed"], predicted["pulled"], host.pulls()) == (True, IMAGES, [])
    result = host.run()
    assert (result["changed"], result["pulled"], host.pulls()) == (True, IMAGES, IMAGES)
    assert not list((host.here / "root/run/gpulab").iterdir()), "the configuration is gone"
    for check in (True, False):
        again = host.run(check=check)
        assert (again["changed"], again["pulled"], again["images"]) == (False, [], IMAGES)
    assert host.pulls() == IMAGES


def test_images_are_synced_once(host: Host) -> None:
    store = host.here / "root/var/lib/containerd"
    store.mkdir(parents=True)
    host.run()
    done = [line for line in (host.here / "log").read_text().splitlines() if not line.startswith("inspecti")]
    assert done == [*(f"pull {image}" for image in IMAGES), f"sync --file-system {store}"]
    host.run()
    assert (host.here / "log").read_text().count("sync --file-system") == 1


def test_a_failed_pull_is_repeated(host: Host) -> None:
    (host.here / "fails").write_text("1\n")
    assert host.run()["changed"]
    assert host.pulls() == [IMAGES[0], *IMAGES]


def test_an_unavailable_image_is_named_and_the_others_are_kept(host: Host) -> None:
    (host.here / "fails").write_text("1\n" * 50)
    (host.here / "store" / IMAGES[0].replace("/", "")).touch()
    result = host.run()
    assert result["failed"]
    assert f"Error while pulling the image {IMAGES[1]}: no such host" in result["msg"]
    assert "containerd_registry_mirrors" in result["msg"]
    (host.here / "fails").unlink()
    assert host.run()["pulled"] == IMAGES[1:]


def test_check_mode_works_before_anything_is_installed(host: Host) -> None:
    predicted = host.run(check=True, executable="/nowhere/kubeadm")
    assert (predicted["failed"], predicted["changed"], predicted["known"]) == (False, True, False), predicted
    assert host.run(executable="/nowhere/kubeadm")["failed"]


def test_given_images_are_pulled_without_kubeadm(host: Host) -> None:
    result = host.run(config=None, images=["mirror/kube-proxy:v1.37.2"])
    assert not result["failed"], result
    assert (result["pulled"], host.pulls()) == (["mirror/kube-proxy:v1.37.2"], ["mirror/kube-proxy:v1.37.2"])
    assert not host.run(config=None, images=["mirror/kube-proxy:v1.37.2"])["changed"]
    assert "mutually exclusive" in host.run(images=["a"])["msg"]
