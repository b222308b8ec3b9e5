"""The kernel of gpu-check and the lab's CUDA sample, with a libcuda that computes on the CPU."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from lab.depot.cache import DepotError
from lab.gpusim import library

SOURCE = Path(__file__).resolve().parents[3] / "lab/gpusim/image/vector_add.c"
# Fails in the function named by FAIL; WRONG makes the kernel omit an element.
LIBCUDA = """
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
static int fails(const char *name) { const char *chosen = getenv("FAIL"); return chosen && !strcmp(chosen, name); }
#define CALL(name, parameters, body) int name parameters { if (fails(#name)) return 2; body return 0; }
CALL(cuInit, (unsigned flags), (void)flags;)
CALL(cuDeviceGetCount, (int *count), *count = atoi(getenv("COUNT"));)
CALL(cuDeviceGet, (int *device, int index), *device = index;)
CALL(cuDeviceGetName, (char *name, int size, int device), (void)size; (void)device; strcpy(name, "Fake GPU");)
CALL(cuDeviceGetUuid, (unsigned char *id, int device), memset(id, 0x10 + device, 16);)
CALL(cuDevicePrimaryCtxRetain, (void **context, int device), (void)device; *context = context;)
CALL(cuDevicePrimaryCtxRelease, (int device), (void)device;)
CALL(cuCtxSetCurrent, (void *context), (void)context;)
CALL(cuCtxSynchronize, (void), )
CALL(cuModuleLoadData, (void **module, const char *image),
     if (!strstr(image, ".entry vector_add")) return 218; *module = module;)
CALL(cuModuleGetFunction, (void **function, void *module, const char *name),
     (void)module; (void)name; *function = function;)
CALL(cuMemAlloc_v2, (uint64_t *on_gpu, size_t bytes), *on_gpu = (uintptr_t)malloc(bytes);)
CALL(cuMemFree_v2, (uint64_t on_gpu), free((void *)on_gpu);)
CALL(cuMemcpyHtoD_v2, (uint64_t on_gpu, const void *on_host, size_t bytes), memcpy((void *)on_gpu, on_host, bytes);)
CALL(cuMemcpyDtoH_v2, (void *on_host, uint64_t on_gpu, size_t bytes), memcpy(on_host, (void *)on_gpu, bytes);)
int cuGetErrorString(int status, const char **words) { (void)status; *words = "out of memory"; return 0; }
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **arguments, void **extra)
{
    float *a = (float *)*(uint64_t *)arguments[0], *b = (float *)*(uint64_t *)arguments[1];
    float *c = (float *)*(uint64_t *)arguments[2];
    unsigned n = *(unsigned *)arguments[3];
    (void)function, (void)gy, (void)gz, (void)by, (void)bz, (void)shared, (void)stream, (void)extra;
    if (fails("cuLaunchKernel")) return 2;
    for (unsigned i = 0; i < gx * bx; i++)
        if (i < n && !(getenv("WRONG") && i == n - 1)) c[i] = a[i] + b[i];
    return 0;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("gcc") is None:
        pytest.skip("no gcc here")
    directory = tmp_path_factory.mktemp("vector-add")
    try:
        include = library.header().parent
    except DepotError as error:
        pytest.skip(str(error))
    (directory / "cuda.c").write_text(LIBCUDA)
    flags = ["-O2", "-Wall", "-Wextra", "-Werror", f"-I{include}"]
    subprocess.run(["gcc", *flags, "-o", directory / "vectorAdd", SOURCE, "-ldl"], check=True)
    flags = ["-O2", "-w", "-shared", "-fPIC"]
    subprocess.run(["gcc", *flags, "-o", directory / "libcuda.so.1", directory / "cuda.c"], check=True)
    return directory / "vectorAdd"


def run(program: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "LD_LIBRARY_PATH": str(program.parent), "COUNT": "2", **environment}
    return subprocess.run([program, *arguments], env=env, capture_output=True, text=True, timeout=30)


def test_every_gpu_computes(program: Path) -> None:
    done = run(program)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.findall(r"^GPU (\d): Fake GPU \(UUID: (\S+)\)$", done.stdout, re.MULTILINE) == [
        ("0", "10101010-1010-1010-1010-101010101010"),
        ("1", "11111111-1111-1111-1111-111111111111"),
    ]
    assert done.stdout.endswith("Test PASSED\nDone\n")
    assert "simulated" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "environment", "element"), [(["--corrupt"], {}, 25000), ([], {"WRONG": "1"}, 49999)]
)
def test_a_wrong_element_is_detected(
    program: Path, arguments: list[str], environment: dict[str, str], element: int
) -> None:
    done = run(program, *arguments, **environment)
    assert (done.returncode, done.stderr) == (1, f"Result verification failed at element {element}!\n")
    assert "PASSED" not in done.stdout


def test_without_a_gpu_it_fails_like_the_sample(program: Path) -> None:
    done = run(program, COUNT="0")
    expected = "Failed to allocate device vector A (error code no CUDA-capable device is detected)!\n"
    assert (done.returncode, done.stderr) == (1, expected)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("cuInit", "initializing CUDA"),
        ("cuModuleLoadData", "compiling the kernel"),
        ("cuMemAlloc_v2", "allocating GPU memory"),
        ("cuLaunchKernel", "starting the kernel"),
        ("cuCtxSynchronize", "running the kernel"),
    ],
)
def test_a_failing_call_is_named(program: Path, function: str, words: str) -> None:
    done = run(program, FAIL=function)
    assert (done.returncode, done.stderr) == (1, f"Error while {words} (error code 2: out of memory)!\n")


def test_the_gpus_are_held_until_the_program_is_terminated(program: Path) -> None:
    env = {**os.environ, "LD_LIBRARY_PATH": str(program.parent), "COUNT": "2"}
    with subprocess.Popen([program, "--hold"], env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "Done\n" in process.stdout
        assert process.poll() is None
        process.terminate()
    assert process.returncode == -15


def test_unknown_arguments_are_refused(program: Path) -> None:
    assert run(program, "--broken").returncode == 2
