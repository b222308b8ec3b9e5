"""Build what is missing, in this order: keys, programs, packages, repositories, images."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from lab import progress
from lab.depot import cache, catalog, check_image, golang, images, recipes, registry, repositories, signing, versions
from lab.depot.catalog import Deb
from lab.depot.golang import Recipe
from lab.depot.repositories import Site
from upstream.lock import Key, load


def build(kubernetes: Sequence[str] = (versions.DEFAULT_KUBERNETES,)) -> None:
    """Build everything that a lab with these Kubernetes versions needs; existing builds are reused.

    Raises DepotError.
    """
    wanted = _with_built(kubernetes)
    # Checked without the lock, so that a complete depot doesn't wait for another build.
    if all(there for there, _text in _state(wanted)):
        return
    with cache.lock("depot"):
        _make_keys()
        _programs(_recipes(wanted))
        _packages(wanted)
        _programs(images.sources(wanted))
        _images(wanted)


def listing(kubernetes: Sequence[str] = (versions.DEFAULT_KUBERNETES,)) -> list[str]:
    """Return one line per key, program, package, repository and image: whether it exists, and its name."""
    return [f"{'built  ' if there else 'missing'}  {text}" for there, text in _state(_with_built(kubernetes))]


def _state(wanted: Sequence[str]) -> list[tuple[bool, str]]:
    known = [version for version in wanted if golang.is_built(recipes.kubernetes(version))]
    rows = [(signing.is_made(key), f"key        in the place of {key.fingerprint} ({key.file})") for key in _keys()]
    built = [*_recipes(wanted), *images.sources(known)]
    rows += [(golang.is_built(recipe), f"program    {recipe.name} {recipe.version}") for recipe in built]
    debs = _debs(wanted)
    rows += [(deb.is_packed, f"package    {name}/{deb.filename}") for name, members in debs.items() for deb in members]
    rows += [(site.is_written, f"repository {site.below}") for site in _sites(debs)]
    found = [image for version in known for image in images.kubernetes(version)] + images.add_ons()
    rows += [(image.is_stored, f"image      {image.reference}") for image in found]
    rows.append((check_image.is_stored(), f"image      {versions.CHECK_IMAGE} (simulated)"))
    return rows + [(False, f"images     of Kubernetes {v}: named by its kubeadm") for v in wanted if v not in known]


def _with_built(kubernetes: Sequence[str]) -> list[str]:
    """Add the versions of earlier builds: their packages stay in the repositories."""
    for version in kubernetes:
        versions.check_kubernetes(version)
    return [v for v in versions.kubernetes() if v in kubernetes or golang.is_built(recipes.kubernetes(v))]


def _keys() -> list[Key]:
    return signing.distinct(repository.key for repository in load().repositories.values())


def _make_keys() -> None:
    missing = [key for key in _keys() if not signing.is_made(key)]
    if missing:
        with progress.step("Signing keys of the depot") as step:
            for key in missing:
                signing.make(key)
            step.note(f"{len(missing)} of {len(_keys())}")


def _debs(kubernetes: Sequence[str]) -> dict[str, list[Deb]]:
    return catalog.debs(load().repositories.values(), kubernetes)


def _sites(debs: dict[str, list[Deb]]) -> list[Site]:
    return repositories.sites(load().repositories.values(), debs)


def _recipes(kubernetes: Sequence[str]) -> list[Recipe]:
    packed = [recipe for members in _debs(kubernetes).values() for deb in members for recipe in deb.content.programs]
    return list({recipe.key: recipe for recipe in [recipes.server(), *packed]}.values())


def _programs(wanted: Iterable[Recipe]) -> None:
    for recipe in wanted:
        if not golang.is_built(recipe):
            with progress.step(f"{recipe.name} {recipe.version} from {recipe.module}"):
                golang.build(recipe)


def _packages(kubernetes: Sequence[str]) -> None:
    debs = _debs(kubernetes)
    missing = {deb.path: deb for members in debs.values() for deb in members if not deb.is_packed}
    if missing:
        with progress.step("Packages") as step:
            for deb in missing.values():
                deb.pack()
            step.note(str(len(missing)))
    found = _sites(debs)
    unwritten = [site for site in found if not site.is_written]
    if unwritten:
        with progress.step("Signed apt repositories") as step:
            for site in unwritten:
                site.build()
            step.note(f"{len(unwritten)} of {len(found)}")
    catalog.prune(deb for members in debs.values() for deb in members)


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
    """Run an optional step of another part of the lab; without that part, continue with the others."""
    try:
        with progress.step(title):
            work()
    except cache.DepotError as error:
        progress.warn(str(error))
