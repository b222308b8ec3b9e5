"""Images of packages of a Debian suite, for what is not one program: a single layer, made once."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab import paths, progress
from lab.depot import cache, debian, oci, registry
from lab.depot.golang import Recipe
from lab.depot.oci import Layer, Settings

_HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class DebianImage:
    """``source`` is the file that describes it, ``finish`` what is done to the root filesystem of its packages.

    ``programs`` are those that ``finish`` puts into it.
    """

    reference: str
    name: str
    suite: str
    packages: Sequence[str]
    settings: Settings
    source: Path
    finish: Callable[[Path], None]
    programs: Sequence[Recipe] = ()

    @property
    def is_stored(self) -> bool:
        """Say whether the registry has the image, made from the same."""
        return registry.holds(self.reference) and self._stamp.is_file() and self._stamp.read_text() == self.key

    @property
    def key(self) -> str:
        """Key of everything that the image depends on."""
        code = cache.tree_digest(self.source, *(_HERE / name for name in ("debian_image.py", "debian.py", "oci.py")))
        return cache.digest(self.reference, code, *(recipe.key for recipe in self.programs))

    def build(self) -> None:
        """Make the image and store it, unless the registry has it, made from the same. Raises DepotError."""
        if self.is_stored:
            return
        with cache.lock("depot"), registry.writable() as target:
            if not self.is_stored:
                with progress.step(f"Image {self.reference}"):
                    made = layer(f"image-{self.name}", self.suite, self.packages, self.key, self.finish)
                    target.push(self.reference, [made], self.settings)
                    cache.replace_text(self._stamp, self.key)

    @property
    def _stamp(self) -> Path:
        return paths.registry() / "made" / f"{self.name}-image.key"


def layer(
    component: str, suite: str, packages: Sequence[str], key: str, finish: Callable[[Path], None] | None = None
) -> Layer:
    """Return the layer of a suite's packages, which is made unless the component is there, made from the same."""
    directory = paths.component_dir(component, suite)
    if cache.key_of(directory) != key:
        with cache.fresh(directory, key) as work:
            root = work / "root"
            debian.root_filesystem(root, suite, packages)
            if finish:
                finish(root)
            made = oci.tree_layer(work / "layer", root)
            shutil.rmtree(root)
            (work / "layer.json").write_text(json.dumps({"digest": made.digest, "tar_digest": made.tar_digest}))
    return Layer(directory / "layer", **json.loads((directory / "layer.json").read_text()))
