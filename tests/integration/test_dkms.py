"""The distribution's driver from real packages, headers and DKMS, built for the distribution's own kernel.

Debian 12 builds its proprietary modules, which are not loaded: a container has no kernel of its own. The open modules
of Debian 12 and 13 don't build for their current kernels, which the error must say.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import pytest
import yaml
from support.hosts import ROOT, Host
from support.lab import Lab, running
from support.play import Run, play

SPEC = ROOT / "tests" / "integration" / "specs" / "dkms.yml"
PLAYBOOK = """---
- name: Install the distribution's driver alone
  hosts: all
  gather_facts: false
  become: true
  roles:
    - role: gpulab.kubernetes.preflight
    - role: gpulab.kubernetes.nvidia_driver
"""
WHY = """---
- name: Say why DKMS failed
  hosts: all
  gather_facts: false
  become: true
  tasks:
    - name: Read the log of the build
      gpulab.kubernetes.nvidia_dkms_info:
        version: "{{ version }}"
      register: dkms
    - name: Fail with its reason
      ansible.builtin.fail:
        msg: "{{ dkms.reason | join(' ') }}"
"""
PREFERENCES = "/etc/apt/preferences.d/gpulab-nvidia-driver"
NON_FREE = r"sed -i 's/\bmain$/main contrib non-free non-free-firmware/' /etc/apt/sources.list{,.d/debian.sources}"
BUILD = 2400


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with running("dkms", SPEC) as started:
        yield started


def install(lab: Lab, node: str, version: str, *arguments: str) -> Run:
    """Run preflight and the driver role on one node only."""
    playbook = lab.directory / "driver.yml"
    playbook.write_text(PLAYBOOK)
    source = ["--extra-vars", f"nvidia_driver_source=distribution nvidia_driver_version={version}"]
    return play(lab.path, "--limit", node, *source, *arguments, playbook=str(playbook), timeout=BUILD)


def offered(host: Host, package: str) -> str:
    """Return the distribution's driver version without epoch and revision."""
    host.run(f"{NON_FREE} 2>/dev/null || true; apt-get update -qq", 300)
    found = host.run(f"apt-cache show --no-all-versions {package} | sed -n 's/^Version: //p'").strip()
    return found.rpartition("-")[0].rpartition(":")[2]


def test_missing_non_free_is_reported_before_anything_changes(lab: Lab) -> None:
    run = install(lab, "old", "535.261.03")
    assert run.status != 0
    assert "non-free" in run.failures()
    assert not run.changed()


@pytest.mark.parametrize(("node", "known"), [("old", "535.261.03"), ("new", "550.163.01")])
def test_open_modules_that_do_not_build_are_refused_by_name(lab: Lab, node: str, known: str) -> None:
    version = offered(lab.inventory().hosts[node], "nvidia-open-kernel-dkms")
    if version != known:
        pytest.skip(f"Debian has {version} by now, which is not known to fail")
    run = install(lab, node, version)
    assert run.status != 0
    assert "pci_resize_resource" in run.failures()
    assert "nvidia_driver_source" in run.failures()
    assert not run.changed()


def test_packages_of_an_older_driver_are_installed_in_the_same_version(lab: Lab) -> None:
    """The security archive has newer packages, but the open modules depend on their exact version."""
    host, names = lab.inventory().hosts["old"], ("nvidia-open-kernel-dkms", "libcuda1", "nvidia-smi")
    version = offered(host, names[0])
    if offered(host, names[2]) == version:
        pytest.skip(f"Debian has {version} of all parts by now")
    files = yaml.safe_load((ROOT / "roles/nvidia_driver/vars/main.yml").read_text())["_nvidia_driver_files"]
    template = next(file["content"] for file in files if file["path"] == PREFERENCES)
    preferences = template.replace("{{ nvidia_driver_plan['version'] }}", version)
    simulate = f"apt-get install -s --no-install-recommends {' '.join(f'{name}={version}-*' for name in names)}"
    assert "held broken packages" in host.attempt(simulate).stderr
    written = f"printf %s {shlex.quote(preferences)} > {PREFERENCES}"
    host.run(f"{written} && {simulate}; done=$?; rm {PREFERENCES}; exit $done")


def test_debian_12_builds_its_own_driver_modules(lab: Lab) -> None:
    host = lab.inventory().hosts["old"]
    release = host.run("uname -r").strip()
    version = offered(host, "nvidia-kernel-dkms")
    run = install(lab, "old", version, "--extra-vars", "nvidia_driver_modules=proprietary")
    built = [line for line in host.run("dkms status").splitlines() if version in line]
    assert built and all(line.endswith(f"{release}, x86_64: installed") for line in built), run.failures()
    assert host.run("dpkg-query -W -f '${db:Status-Abbrev}' linux-headers-cloud-amd64").strip() == "ii"
    # The running kernel is that of the host below, which loads no modules of another release.
    assert run.status != 0
    assert "Error while loading the NVIDIA driver" in run.failures()


def test_a_compiler_that_cannot_compile_is_named(lab: Lab) -> None:
    host = lab.inventory().hosts["old"]
    module, _, version = host.run("ls /usr/src | grep '^nvidia' | head -n 1").strip().rpartition("-")
    host.run(f"dkms remove {module}/{version} --all; for c in /usr/bin/*gcc-[0-9]*; do ln -sf /bin/false $c; done")
    done = host.attempt(f"dkms build {module}/{version}", BUILD)
    assert done.returncode != 0
    playbook = lab.directory / "why.yml"
    playbook.write_text(WHY)
    arguments = ["--limit", "old", "--extra-vars", f"version={version}"]
    told = play(lab.path, *arguments, playbook=str(playbook)).failures()
    assert "compiler" in told or "CC sanity check" in told
