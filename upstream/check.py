"""Check `upstream.lock` without contacting upstream: whether it is well-formed, and what it contradicts."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import yaml

from upstream import relations
from upstream.lock import KNOWN, PATH, RELATIONS, Lock, LockError, Package, Repository

OLD_AFTER_DAYS = 60
DOCKER = {
    "docker-ce": "packages",
    "docker-ce-cli": "packages",
    "docker-buildx-plugin": "buildx",
    "docker-compose-plugin": "compose",
}
# The source of facts that upstream itself confirmed, and of those that are not checked yet.
UPSTREAM = "upstream"
TABLE = PATH.parent / "roles" / "cluster" / "vars" / "main" / "versions.yml"

# Dependencies of the lock's packages that every release of a distribution has.
OF_THE_DISTRIBUTION = (
    *("iptables", "kmod", "libc6", "libcap2", "libseccomp2", "libsystemd0", "mount", "nftables", "util-linux"),
    *("build-essential", "libgcc1", "libibumad3", "libstdc++6"),
)

_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_PARTIAL_DAY = re.compile(r"[0-9]{4}(?:-[0-9]{2}(?:-[0-9]{2})?)?")
_ADDRESS = re.compile(r"https://[a-z0-9.-]+(?::[0-9]+)?/\S*")
_FINGERPRINT = re.compile(r"[0-9A-F]{40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_REFERENCE = re.compile(r"[a-z0-9.-]+(?::[0-9]+)?(?:/[a-z0-9._-]+)+:[A-Za-z0-9_][A-Za-z0-9_.-]*")
_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]+")
_VERSION = re.compile(r"(?:[0-9]+:)?[0-9][A-Za-z0-9.+~]*(?:-[A-Za-z0-9.+~]+)*")
_ENTRY = {"source": True, "verified": True}
_FIELDS: Mapping[str, Mapping[str, bool]] = {
    "source": {"about": True, "known": True, "dated": True, "address": True},
    "repository": {
        **dict.fromkeys(("url", "suite", "components", "distributions", "release", "key", "packages"), True),
        **_ENTRY,
    },
    "key": {**dict.fromkeys(("url", "fingerprint", "expires"), True), **_ENTRY},
    "package": {**dict.fromkeys(("architecture", "empty", "relations_source", *RELATIONS), False), **_ENTRY},
    "image": {"digest": True, **_ENTRY},
    "download": {"url": True, "sha256": True, **_ENTRY},
}


def read(path: Path = PATH) -> dict[str, Any]:
    """Return the content of a lock as it is. Raises LockError."""
    try:
        content = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise LockError(f"Error while reading {path}: {error}. Restore it: git checkout {PATH.name}") from error
    if not isinstance(content, dict):
        raise LockError(f"Error while reading {path}: it holds no mapping. Restore it: git checkout {PATH.name}")
    return content


def malformed(content: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with the form of a lock, each as `<entry>: <what>`."""
    found = [f"schema: {content.get('schema')!r} is not 1"] if content.get("schema") != 1 else []
    found += _wrong("dated", content.get("dated"), _day)
    sections = ("sources", "repositories", "images", "downloads")
    missing = [name for name in sections if not isinstance(content.get(name), Mapping)]
    if missing:
        return [*found, *(f"{name}: is missing" for name in missing)]
    shapeless = list(_shapeless(content))
    if shapeless:
        return [*found, *shapeless]
    for name, source in content["sources"].items():
        found += _fields(name, source, "source")
        found += _wrong(f"{name}: about", source.get("about"), bool)
        if source.get("known") not in KNOWN:
            found.append(f"{name}: known: {source.get('known')!r} is none of {', '.join(KNOWN)}")
        found += _wrong(f"{name}: dated", source.get("dated"), _PARTIAL_DAY.fullmatch)
        found += _wrong(f"{name}: address", source.get("address"), _ADDRESS.fullmatch, none=True)
    for name, repository in content["repositories"].items():
        found += _repository(name, repository)
    for name, image in content["images"].items():
        found += [*_fields(name, image, "image"), *_wrong(f"{name}: reference", name, _REFERENCE.fullmatch)]
        digest = str(image.get("digest") or "").removeprefix("sha256:") or image.get("digest")
        found += _wrong(f"{name}: digest", digest, _SHA256.fullmatch, none=True)
    for name, download in content["downloads"].items():
        found += _fields(name, download, "download")
        found += _wrong(f"{name}: url", download.get("url"), _ADDRESS.fullmatch)
        found += _wrong(f"{name}: sha256", download.get("sha256"), _SHA256.fullmatch, none=True)
    return [*found, *_sources(content)]


def contradictions(table: Mapping[str, Any], lock: Lock) -> list[str]:
    """Return entries of the product's version table that are missing or different in the lock."""
    versions, keys = table["cluster_versions"], table["cluster_repositories"]
    found: list[str] = []
    for release in table["cluster_distributions"]:
        name = release.replace(" ", "").replace(".", "").lower()
        for version, entry in versions["kubernetes"].items():
            family = "kubernetes-v" + ".".join(version.split(".")[:2])
            found += _lacking(lock, family, release, entry["packages"])
            found += _other_key(lock, family, release, keys["kubernetes"])
        for entry in versions["containerd"].values():
            found += _lacking(lock, "docker", release, {"containerd.io": entry["packages"].get(release)})
        for entry in versions["docker"].values():
            wanted = {name: entry[part].get(release) for name, part in DOCKER.items()}
            found += _lacking(lock, "docker", release, wanted)
        for entry in versions["nvidia_container_toolkit"].values():
            wanted = {"nvidia-container-toolkit": entry["packages"]["any"]}
            found += _lacking(lock, "container-toolkit", release, wanted)
        for entry in versions["nvidia_driver"].values():
            suffix = f"-{entry['branch']}" if entry["naming"] == "branch" else ""
            if release in entry["packages"]:
                names = (f"nvidia-open{suffix}", f"cuda-drivers{suffix}")
                found += _lacking(lock, "cuda", release, dict.fromkeys(names, entry["packages"][release]))
        found += _other_key(lock, "docker", release, keys["docker"])
        found += _other_key(lock, "container-toolkit", release, keys["container_toolkit"])
        found += _other_key(lock, "cuda", release, keys["cuda"].get(name, {}))
    for version, entry in versions["kubernetes"].items():
        wanted_images = kubernetes_images(version, entry)
        found += [f"{image}: the lock has no such image" for image in wanted_images if image not in lock.images]
        if entry["etcd_tools"] not in versions["etcd_tools"]:
            found.append(f"Kubernetes {version}: the table has no tools of etcd {entry['etcd_tools']}")
    for program, table_of in {"minikube": versions["minikube"], "etcd": versions["etcd_tools"]}.items():
        for version, known in table_of.items():
            download = lock.downloads.get(f"{program}-v{version}-linux-amd64")
            if download is None or download.value != known["sha256"]:
                there = download.value if download else "no such download"
                found.append(f"{program} {version}: the lock has {there}, not {known['sha256']}")
    for reference, digest in table["_cluster_image_digests"].items():
        image = lock.images.get(reference)
        if image is None or image.value != digest:
            found.append(f"{reference}: the lock has {image.value if image else 'no such image'}, not {digest}")
    return list(dict.fromkeys(found))


def kubernetes_images(version: str, entry: Mapping[str, Any]) -> list[str]:
    """Return the images that this version of kubeadm needs; ``entry`` is from the version table."""
    programs = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy")
    others = (f"coredns/coredns:{entry['coredns']}", f"etcd:{entry['etcd']}", f"pause:{entry['pause']}")
    return [f"registry.k8s.io/{image}" for image in (*(f"{name}:v{version}" for name in programs), *others)]


def uninstallable(lock: Lock, release: str, wanted: Mapping[str, str]) -> list[str]:
    """Return unmet relations that prevent the installation of packages (version by name)."""
    return _installed(lock, release, wanted)[1]


def dependencies(lock: Lock, release: str, wanted: Mapping[str, str]) -> dict[str, str]:
    """Return the lock's packages (version by name) that are installed with these, including these."""
    return _installed(lock, release, wanted)[0]


def _installed(lock: Lock, release: str, wanted: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    versions: dict[str, list[str]] = {}
    packages: dict[tuple[str, str], Package] = {}
    for repository in lock.repositories.values():
        if release in repository.distributions:
            for package in repository.packages:
                versions.setdefault(package.name, []).append(package.version)
                packages[package.name, package.version] = package
    found, seen, queue = [], set(wanted.items()), list(wanted.items())
    while queue:
        name, version = queue.pop()
        chosen = packages.get((name, version))
        if chosen is None:
            found.append(f"{name} {version}: no repository for {release} has it")
            continue
        text = chosen.relations.get("depends", "")
        lacking = relations.unmet(text, versions, OF_THE_DISTRIBUTION)
        found += [f"{name} {version}: nothing for {release} meets {relation}" for relation in lacking]
        for group in relations.parse(text):
            # Pinned as by the roles: all packages of a driver have the version of the package that requires them.
            fitting = [(part.name, v) for part in group for v in versions.get(part.name, ()) if part.fits(v)]
            same = [pair for pair in fitting if pair[1] == version] or fitting[-1:]
            queue += [pair for pair in same[:1] if pair not in seen]
            seen |= set(same[:1])
    return dict(seen), found


def age(lock: Lock, today: date) -> int:
    """Return the number of days since upstream was last checked."""
    return (today - date.fromisoformat(lock.dated)).days


def age_warning(lock: Lock, today: date) -> str | None:
    """Return a warning about a lock that is too old, or None."""
    days = age(lock, today)
    if days <= OLD_AFTER_DAYS:
        return None
    return (
        f"{PATH.name} is of {lock.dated}, {days} days ago, and upstream moves on. "
        "Ask it with `make verify-upstream`, on a machine with internet, and renew the lock with WRITE=1."
    )


def _repository(name: str, entry: Mapping[str, Any]) -> Iterator[str]:
    yield from _fields(name, entry, "repository")
    yield from _wrong(f"{name}: url", entry.get("url"), _ADDRESS.fullmatch)
    if not entry.get("distributions"):
        yield f"{name}: distributions: names none"
    flat, components = entry.get("suite") == "/", entry.get("components")
    if flat == bool(components):
        yield f"{name}: components: {components!r} does not go with the suite {entry.get('suite')!r}"
    key = entry["key"]
    yield from _fields(f"{name}: key", key, "key")
    yield from _wrong(f"{name}: key: url", key.get("url"), _ADDRESS.fullmatch)
    yield from _wrong(f"{name}: key: fingerprint", key.get("fingerprint"), _FINGERPRINT.fullmatch)
    if key.get("expires") != "never":
        yield from _wrong(f"{name}: key: expires", key.get("expires"), _day, none=True)
    for package, versions in entry["packages"].items():
        yield from _wrong(f"{name}: {package}: name", package, _NAME.fullmatch)
        for version, about in versions.items():
            label = f"{name}: {package} {version}"
            yield from _wrong(f"{label}: version", version, _VERSION.fullmatch)
            yield from _fields(label, about, "package")
            if about.get("architecture", "amd64") not in ("amd64", "all"):
                yield f"{label}: architecture: {about['architecture']!r} is neither amd64 nor all"
            for field in RELATIONS:
                try:
                    relations.parse(about.get(field) or "")
                except (ValueError, AttributeError) as error:
                    yield f"{label}: {field}: {error}"


def _shapeless(content: Mapping[str, Any]) -> Iterator[str]:
    """Yield entries that should be a mapping or list for the other checks."""
    for section in ("sources", "repositories", "images", "downloads"):
        for name, entry in content[section].items():
            if not isinstance(name, str):
                yield f"{section}: {name!r} is no text"
            elif not isinstance(entry, Mapping):
                yield f"{name}: is no mapping"
            elif section == "repositories":
                yield from _shapeless_repository(name, entry)


def _shapeless_repository(name: str, entry: Mapping[str, Any]) -> Iterator[str]:
    for field in ("components", "distributions"):
        listed = entry.get(field)
        if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
            yield f"{name}: {field}: {listed!r:.80} is no list of texts"
    yield from (
        f"{name}: {field}: is no mapping"
        for field in ("key", "packages", "release")
        if not isinstance(entry.get(field), Mapping)
    )
    packages = entry.get("packages")
    for package, versions in packages.items() if isinstance(packages, Mapping) else ():
        if not isinstance(versions, Mapping):
            yield f"{name}: {package}: is no mapping of versions"
        else:
            wrong = (version for version, about in versions.items() if not isinstance(about, Mapping))
            yield from (f"{name}: {package} {version}: is no mapping" for version in wrong)


def _fields(label: str, entry: Mapping[str, Any], kind: str) -> Iterator[str]:
    known = _FIELDS[kind]
    yield from (f"{label}: {field}: is missing" for field, needed in known.items() if needed and field not in entry)
    yield from (f"{label}: {field}: is unknown" for field in entry if field not in known)
    if "verified" in known:
        yield from _wrong(f"{label}: verified", entry.get("verified"), _day, none=True)


def _wrong(label: str, value: object, fits: Callable[[str], object], *, none: bool = False) -> Iterator[str]:
    if (value is None and not none) or (value is not None and not (isinstance(value, str) and fits(value))):
        yield f"{label}: {value!r} does not have the expected form"


def _day(text: str) -> bool:
    try:
        return bool(_DAY.fullmatch(text) and date.fromisoformat(text))
    except ValueError:
        return False


def _sources(content: Mapping[str, Any]) -> Iterator[str]:
    known = content["sources"]
    used = {name for _label, name in named_sources(content) if isinstance(name, str)}
    for label, name in named_sources(content):
        if not isinstance(name, str) or (name not in known and name != UPSTREAM):
            yield f"{label}: source: {name!r} is not among the sources"
    yield from (f"{name}: no entry names this source" for name in known if name not in used)


def named_sources(content: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield each use of a source: the entry and the source's key."""
    for section in ("images", "downloads"):
        for name, entry in content[section].items():
            yield name, entry.get("source")
    for name, repository in content["repositories"].items():
        yield name, repository.get("source")
        yield f"{name}: key", (repository.get("key") or {}).get("source")
        for package, versions in (repository.get("packages") or {}).items():
            for version, entry in versions.items():
                for field in ("source", "relations_source"):
                    if field == "source" or field in entry:
                        yield f"{name}: {package} {version}", entry.get(field)


def _found(lock: Lock, family: str, release: str) -> Repository | str:
    try:
        return lock.repository(family, release)
    except LockError as error:
        return str(error)


def _lacking(lock: Lock, family: str, release: str, wanted: Mapping[str, str | None]) -> Iterator[str]:
    repository = _found(lock, family, release)
    if isinstance(repository, str):
        yield repository
        return
    for package, version in wanted.items():
        if version not in repository.versions(package):
            held = ", ".join(repository.versions(package)) or "no version of it"
            yield f"{release}: {repository.name} does not hold {package} {version}, it holds {held}"


def _other_key(lock: Lock, family: str, release: str, wanted: Mapping[str, Any]) -> Iterator[str]:
    repository = _found(lock, family, release)
    if isinstance(repository, str):
        yield repository
        return
    have, asked = repository.key.file, wanted.get("key")
    if have != asked:
        yield f"{release}: {repository.name} has the key file {have}, not {asked}"
    fingerprints: Collection[str] = wanted.get("fingerprints") or ()
    if repository.key.fingerprint not in fingerprints:
        listed = ", ".join(fingerprints) or "none"
        yield f"{release}: {repository.name} is signed with {repository.key.fingerprint}, the table has {listed}"
