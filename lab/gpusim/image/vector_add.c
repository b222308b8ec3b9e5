/*
 * Stands in for NVIDIA's vectorAdd sample where GPUs are simulated: it finds them through NVML, as a container sees
 * them, adds its vectors on the CPU, and says so. Without a GPU it fails with the words and the status of the real one.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "nvml.h"

#define ELEMENTS 50000
#define SYMBOL(name) __typeof__(nvml##name) *name = (__typeof__(nvml##name) *)dlsym(library, "nvml" #name)

static int fail(const char *code)
{
    fprintf(stderr, "Failed to allocate device vector A (error code %s)!\n", code);
    return EXIT_FAILURE;
}

static const char *cuda_words(nvmlReturn_t reason)
{
    switch (reason) {
    case NVML_ERROR_DRIVER_NOT_LOADED: return "CUDA driver version is insufficient for CUDA runtime version";
    case NVML_ERROR_LIB_RM_VERSION_MISMATCH: return "system has unsupported display driver / cuda driver combination";
    case NVML_ERROR_GPU_IS_LOST: return "CUDA-capable device(s) is/are busy or unavailable";
    default: return "unknown error";
    }
}

static int add_vectors(void)
{
    static float a[ELEMENTS], b[ELEMENTS], c[ELEMENTS];
    for (int i = 0; i < ELEMENTS; i++) {
        a[i] = (float)rand() / (float)RAND_MAX;
        b[i] = (float)rand() / (float)RAND_MAX;
    }
    for (int i = 0; i < ELEMENTS; i++) c[i] = a[i] + b[i];
    for (int i = 0; i < ELEMENTS; i++)
        if (c[i] - a[i] - b[i] > 1e-5f) return i;
    return -1;
}

/* Of a GPU in MIG mode a program can use the parts that it was given, and not the whole; returns how many there are. */
static int list_parts(void *library, nvmlDevice_t device)
{
    unsigned current = 0, pending = 0, parts = 0;
    SYMBOL(DeviceGetMigMode);
    SYMBOL(DeviceGetMigDeviceHandleByIndex);
    SYMBOL(DeviceGetName);
    SYMBOL(DeviceGetUUID);
    if (!DeviceGetMigMode || DeviceGetMigMode(device, &current, &pending) != NVML_SUCCESS || !current) return 1;
    for (unsigned index = 0; index < 8; index++) {
        char name[NVML_DEVICE_NAME_V2_BUFFER_SIZE], uuid[NVML_DEVICE_UUID_V2_BUFFER_SIZE];
        nvmlDevice_t part;
        if (DeviceGetMigDeviceHandleByIndex(device, index, &part) != NVML_SUCCESS) break;
        if (DeviceGetName(part, name, sizeof name) || DeviceGetUUID(part, uuid, sizeof uuid)) break;
        printf("[simulated]   %s (UUID: %s)\n", name, uuid);
        parts++;
    }
    return (int)parts;
}

int main(void)
{
    unsigned count = 0, usable = 0;
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (!library) return fail("CUDA driver version is insufficient for CUDA runtime version");
    SYMBOL(Init_v2);
    SYMBOL(DeviceGetCount_v2);
    SYMBOL(DeviceGetHandleByIndex_v2);
    SYMBOL(DeviceGetName);
    SYMBOL(DeviceGetUUID);
    SYMBOL(Shutdown);
    if (!Init_v2 || !DeviceGetCount_v2 || !DeviceGetHandleByIndex_v2 || !DeviceGetName || !DeviceGetUUID || !Shutdown)
        return fail("unknown error");
    nvmlReturn_t result = Init_v2();
    if (result == NVML_SUCCESS) result = DeviceGetCount_v2(&count);
    if (result != NVML_SUCCESS) return fail(cuda_words(result));
    if (!count) return fail("no CUDA-capable device is detected");
    for (unsigned i = 0; i < count; i++) {
        char name[NVML_DEVICE_NAME_V2_BUFFER_SIZE], uuid[NVML_DEVICE_UUID_V2_BUFFER_SIZE];
        nvmlDevice_t device;
        result = DeviceGetHandleByIndex_v2(i, &device);
        if (result == NVML_SUCCESS) result = DeviceGetName(device, name, sizeof name);
        if (result == NVML_SUCCESS) result = DeviceGetUUID(device, uuid, sizeof uuid);
        if (result != NVML_SUCCESS) return fail(cuda_words(result));
        printf("[simulated] GPU %u: %s (UUID: %s)\n", i, name, uuid);
        usable += (unsigned)list_parts(library, device);
    }
    if (!usable) return fail("no CUDA-capable device is detected");
    Shutdown();
    printf("[simulated] [Vector addition of %d elements] on the CPU: no CUDA kernel runs on a simulated GPU\n", ELEMENTS);
    int wrong = add_vectors();
    if (wrong >= 0) {
        fprintf(stderr, "Result verification failed at element %d!\n", wrong);
        return EXIT_FAILURE;
    }
    puts("[simulated] Test PASSED");
    puts("Done");
    return EXIT_SUCCESS;
}
