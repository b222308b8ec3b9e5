"""Build what is missing, step by step: programs, packages, repositories, images."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from lab import progress
from lab.depot import (
    cache,
    check_image,
    cuda_toolkits,
    driver_debs,
    golang,
    images,
    packages,
    recipes,
    registry,
    repositories,
    signing,
    versions,
)
from lab.depot.golang import Recipe
from lab.depot.packages import Package
from lab.depot.repositories import Repository


def build(kubernetes: Sequence[str] = (versions.DEFAULT_KUBERNETES,)) -> None:
    """Build everything that a lab with these Kubernetes versions needs; what is there already costs nothing.

    Raises DepotError.
    """
    wanted = _with_built(kubernetes)
    # Looked at without the lock: whoever has everything doesn't wait for another build.
    if all(there for there, _text in _state(wanted)):
        return
    with cache.lock("depot"):
        if not signing.is_made():
            with progress.step("Signing key of the depot"):
                signing.make()
        _programs(_recipes(wanted))
        _packages(wanted)
        _programs(images.sources(wanted))
        _images(wanted)


def listing(kubernetes: Sequence[str] = (versions.DEFAULT_KUBERNETES,)) -> list[str]:
    """Return one line per program, package, repository and image: whether it is there, and its name."""
    return [f"{'built  ' if there else 'missing'}  {text}" for there, text in _state(_with_built(kubernetes))]


def _state(wanted: Sequence[str]) -> list[tuple[bool, str]]:
    known = [version for version in wanted if golang.is_built(recipes.kubernetes(version))]
    built = [*_recipes(wanted), *images.sources(known)]
    rows = [(golang.is_built(recipe), f"program    {recipe.name} {recipe.version}") for recipe in built]
    groups = _groups(wanted)
    rows += [
        (package.is_packed, f"package    {group}/{package.filename}")
        for group, members in groups.items()
        for package in members
    ]
    rows += [
        (driver_debs.are_packed(version, entry[3]), f"packages   driver {version} for {entry[3]} (simulated)")
        for version in versions.driver_versions()
        for entry in versions.DISTRIBUTIONS
    ]
    rows.append((cuda_toolkits.are_packed(), "packages   CUDA toolkits (simulated)"))
    rows += [(found.is_written, f"repository {found.below}") for found in _repositories(groups)]
    found = [image for version in known for image in images.kubernetes(version)] + images.add_ons()
    rows += [(image.is_stored, f"image      {image.reference}") for image in found]
    rows.append((check_image.is_stored(), f"image      {versions.CHECK_IMAGE} (simulated)"))
    return rows + [(False, f"images     of Kubernetes {v}: named by its kubeadm") for v in wanted if v not in known]


def _with_built(kubernetes: Sequence[str]) -> list[str]:
    """Add the versions that were asked for earlier: their packages stay in the repositories."""
    for version in kubernetes:
        versions.kubernetes_packages(version)
    return [v for v in versions.table()["kubernetes"] if v in kubernetes or golang.is_built(recipes.kubernetes(v))]


def _recipes(kubernetes: Iterable[str]) -> list[Recipe]:
    found = [recipes.server()]
    for version in kubernetes:
        debs = versions.kubernetes_packages(version)
        found += [recipes.kubernetes(version), recipes.crictl(versions.crictl(debs["cri-tools"]))]
        found.append(recipes.cni_plugins(versions.upstream(debs["kubernetes-cni"])))
    for version in versions.containerd_packages():
        found += [recipes.containerd(version), recipes.runc(version)]
    found += [recipes.container_toolkit(version) for version in versions.toolkit_versions()]
    return list({recipe.key: recipe for recipe in found}.values())


def _programs(wanted: Iterable[Recipe]) -> None:
    for recipe in wanted:
        if not golang.is_built(recipe):
            with progress.step(f"{recipe.name} {recipe.version} from {recipe.module}"):
                golang.build(recipe)


def _groups(kubernetes: Iterable[str]) -> dict[str, list[Package]]:
    found = [package for version in kubernetes for package in packages.kubernetes(version)]
    for version, debs in versions.containerd_packages().items():
        found += [packages.containerd(version, debs[entry[0]]) for entry in versions.DISTRIBUTIONS]
    for version, deb in versions.toolkit_versions().items():
        found += packages.container_toolkit(version, deb)
    found += [packages.cuda_keyring(entry[3]) for entry in versions.DISTRIBUTIONS]
    groups: dict[str, list[Package]] = {}
    for package in found:
        groups.setdefault(package.group, []).append(package)
    return groups


def _packages(kubernetes: Iterable[str]) -> None:
    groups = _groups(kubernetes)
    for group, members in groups.items():
        missing = [package for package in members if not package.is_packed]
        if missing:
            with progress.step(f"Packages: {group}") as step:
                for package in missing:
                    package.build()
                step.note(", ".join(package.filename for package in missing))
    places = [(v, entry[3]) for v in versions.driver_versions() for entry in versions.DISTRIBUTIONS]
    if not all(driver_debs.are_packed(*place) for place in places):
        _optional("Packages: simulated NVIDIA driver", driver_debs.build)
    if not cuda_toolkits.are_packed():
        with progress.step("Packages: simulated CUDA toolkits"):
            cuda_toolkits.build()
    found = _repositories(groups)
    unwritten = [repository for repository in found if not repository.is_written]
    if unwritten:
        with progress.step("Signed apt repositories") as step, signing.loaded() as signer:
            for repository in unwritten:
                repository.build(signer)
            step.note(f"{len(unwritten)} of {len(found)}")


def _repositories(groups: Mapping[str, Sequence[Package]]) -> list[Repository]:
    debs = {group: {package.path: package.key for package in members} for group, members in groups.items()}
    found = [
        repositories.kubernetes(group.removeprefix("kubernetes-"), debs[group])
        for group in debs
        if group.startswith("kubernetes-")
    ]
    for system in sorted({entry[1] for entry in versions.DISTRIBUTIONS}):
        suites = {
            codename: {path: key for path, key in debs["containerd"].items() if f"~{codename}_" in path.name}
            for _name, owner, codename, _cuda in versions.DISTRIBUTIONS
            if owner == system
        }
        found.append(repositories.docker(system, suites))
    found.append(repositories.container_toolkit(debs["nvidia-container-toolkit"]))
    toolkits = cuda_toolkits.found()
    for *_docker, cuda in versions.DISTRIBUTIONS:
        found.append(repositories.cuda(cuda, debs[f"cuda-{cuda}"] | driver_debs.found(cuda) | toolkits))
    return found


def _images(kubernetes: Iterable[str]) -> None:
    found = [image for version in kubernetes for image in images.kubernetes(version)] + images.add_ons()
    missing = [image for image in found if not image.is_stored]
    if any(image.on_base for image in missing) and not images.base_is_made():
        with progress.step("Debian with network tools, the base of some images"):
            images.base_layer()
    if not missing and check_image.is_stored():
        return
    with registry.writable() as target:
        for image in missing:
            with progress.step(f"Image {image.reference}"):
                image.store(target)
        if not check_image.is_stored():
            _optional(f"Image {versions.CHECK_IMAGE} (simulated)", lambda: check_image.store(target))


def _optional(title: str, work: Callable[[], None]) -> None:
    """Do a step that another part of the lab provides; without that part the rest is built all the same."""
    try:
        with progress.step(title):
            work()
    except cache.DepotError as error:
        progress.warn(str(error))
