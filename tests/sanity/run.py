"""Run ``ansible-test sanity`` on the files that the collection ships, without containers or a download of get-pip.

ansible-test requires a directory ``ansible_collections/NAMESPACE/NAME`` and bootstraps its environments with a get-pip
script from a host that is not always reachable. The shipped files are therefore copied into a temporary directory
outside the checkout (inside it, git would ignore them), and a home directory below ``.cache`` holds a replacement for
the script. After a successful run, the hash of the checked files is stored, and the next run is skipped if it is equal.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from fnmatch import fnmatch
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / ".cache" / "sanity"
HOME = WORK / "home"
PIP_CHATTER = re.compile(r"\s|Collecting|Installing collected|Looking|Requirement|Successfully|Using cached|$")

GET_PIP = '''\
"""Stands in for get-pip: installs pip from the interpreter's own ensurepip, then what was asked for."""
import ensurepip
import subprocess
import sys

ensurepip.bootstrap()
arguments = [argument for argument in sys.argv[1:] if argument not in ("--no-setuptools", "--no-wheel")]
sys.exit(subprocess.call([sys.executable, "-m", "pip", "install"] + arguments))
'''


def shipped_files() -> list[Path]:
    """Return the tracked and new files that ``galaxy.yml`` does not exclude from the collection."""
    ignored: list[str] = yaml.safe_load((ROOT / "galaxy.yml").read_text())["build_ignore"]
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\0")
    names = [name for name in listed if name and not any(fnmatch(name, p) or name.startswith(p + "/") for p in ignored)]
    return [Path(name) for name in sorted(names) if (ROOT / name).is_file()]


def fingerprint(files: list[Path]) -> str:
    """Return a hash of the files and of the pinned tools that check them."""
    digest = hashlib.sha256((ROOT / "requirements.txt").read_bytes() + sys.version.encode())
    for name in [*files, Path(__file__).relative_to(ROOT)]:
        digest.update(str(name).encode() + b"\0" + (ROOT / name).read_bytes())
    return digest.hexdigest()


def lay_out(files: list[Path], tree: Path) -> None:
    for name in files:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, tree / name)


def make_home() -> None:
    """Create the home directory that contains the bootstrap script for ansible-test."""
    cache = HOME / ".ansible" / "test" / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    for version in pip_versions():
        (cache / f"get_pip_{version.replace('.', '_')}.py").write_text(GET_PIP)
    user_settings, link = Path.home() / ".config" / "pip", HOME / ".config" / "pip"
    if user_settings.is_dir() and not link.exists():
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(user_settings)


def pip_versions() -> list[str]:
    """Return the versions of pip that this version of ansible-test may bootstrap."""
    import ansible_test

    text = (Path(ansible_test.__file__).parent / "_internal" / "python_requirements.py").read_text()
    return re.findall(r"""['"]?pip['"]?\s*[:=]\s*['"](\d[\d.]+)['"]""", text)


def search_path() -> str:
    """Return a PATH that begins with this environment, followed by the oldest Python of the hosts if pyenv has it.

    pyenv's shims are left out: they exist for every installed Python, but fail for versions that are not selected.
    """
    programs = WORK / "bin"
    programs.mkdir(parents=True, exist_ok=True)
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    oldest, link = next(pyenv.glob("versions/3.9.*/bin/python3.9"), None), programs / "python3.9"
    if oldest and not link.exists():
        link.symlink_to(oldest)
    rest = [entry for entry in os.environ["PATH"].split(":") if not entry.endswith("/shims")]
    return ":".join([str(Path(sys.executable).parent), str(programs), *rest])


def sanity(tree: Path, arguments: list[str]) -> tuple[int, str]:
    """Run ansible-test in ``tree`` and show its output; return the exit status and the output."""
    environment = {**os.environ, "HOME": str(HOME), "PATH": search_path()}
    command = ["ansible-test", "sanity", "--python", "default", "--requirements", "--color", "no", *arguments]
    lines = []
    with subprocess.Popen(
        command,
        cwd=tree,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout
        for line in process.stdout:
            lines.append(line)
            if not PIP_CHATTER.match(line):
                print(line, end="", flush=True)
    return process.returncode, "".join(lines)


def main() -> int:
    files = shipped_files()
    passed, wanted = WORK / "passed", fingerprint(files)
    if passed.is_file() and passed.read_text() == wanted and sys.argv[1:] == []:
        print("sanity: unchanged since it last passed")
        return 0
    make_home()
    print(f"sanity: ansible-test on {len(files)} files (several minutes the first time)", flush=True)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="sanity-") as scratch:
        tree = Path(scratch) / "ansible_collections" / "gpulab" / "kubernetes"
        lay_out(files, tree)
        done, output = sanity(tree, sys.argv[1:])
    # ansible-test also succeeds if it skips everything.
    status = done or int("All targets skipped" in output)
    print(f"sanity: {'FAILED' if status else 'passed'} after {time.monotonic() - started:.0f} s")
    if status == 0 and sys.argv[1:] == []:
        passed.write_text(wanted)
    return status


if __name__ == "__main__":
    sys.exit(main())
