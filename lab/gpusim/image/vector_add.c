/*
 * Adds two vectors on every GPU that it sees and checks every element, as NVIDIA's vectorAdd sample does on one GPU.
 *
 * It opens libcuda itself and carries its kernel as PTX, which the driver compiles for the GPU, so it needs neither a
 * CUDA toolkit to be built nor a CUDA runtime to run. With --corrupt it changes one element of the result on purpose,
 * and must then fail. With --hold it keeps the GPUs in use afterwards, until it is ended. Without libcuda, it assumes that the GPUs are simulated: it finds them through NVML, as a
 * container sees them, adds on the CPU, and marks each line as simulated. Errors have the wording and the exit status of the sample.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nvml.h"

#define ELEMENTS 50000
#define BYTES (ELEMENTS * sizeof(float))
#define BLOCK 256
#define SYMBOL(name) __typeof__(nvml##name) *name = (__typeof__(nvml##name) *)dlsym(library, "nvml" #name)

static const char KERNEL[] =
    ".version 6.0\n"
    ".target sm_50\n"
    ".address_size 64\n"
    ".visible .entry vector_add(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)\n"
    "{\n"
    "    .reg .pred %p;\n"
    "    .reg .b32 %r<6>;\n"
    "    .reg .f32 %f<4>;\n"
    "    .reg .b64 %d<8>;\n"
    "    ld.param.u64 %d1, [a];\n"
    "    ld.param.u64 %d2, [b];\n"
    "    ld.param.u64 %d3, [c];\n"
    "    ld.param.u32 %r1, [n];\n"
    "    mov.u32 %r2, %ctaid.x;\n"
    "    mov.u32 %r3, %ntid.x;\n"
    "    mov.u32 %r4, %tid.x;\n"
    "    mad.lo.u32 %r5, %r2, %r3, %r4;\n"
    "    setp.ge.u32 %p, %r5, %r1;\n"
    "    @%p bra DONE;\n"
    "    mul.wide.u32 %d4, %r5, 4;\n"
    "    add.u64 %d5, %d1, %d4;\n"
    "    add.u64 %d6, %d2, %d4;\n"
    "    add.u64 %d7, %d3, %d4;\n"
    "    ld.global.f32 %f1, [%d5];\n"
    "    ld.global.f32 %f2, [%d6];\n"
    "    add.f32 %f3, %f1, %f2;\n"
    "    st.global.f32 [%d7], %f3;\n"
    "DONE:\n"
    "    ret;\n"
    "}\n";

static float a[ELEMENTS], b[ELEMENTS], c[ELEMENTS];
static int corrupt, hold;

static int fail(const char *code)
{
    fprintf(stderr, "Failed to allocate device vector A (error code %s)!\n", code);
    return EXIT_FAILURE;
}

static void fill(void)
{
    for (int i = 0; i < ELEMENTS; i++) {
        a[i] = (float)rand() / (float)RAND_MAX;
        b[i] = (float)rand() / (float)RAND_MAX;
        c[i] = -1;
    }
}

/* Checks every element; returns 0, or 1 with a message. */
static int check(void)
{
    if (corrupt) c[ELEMENTS / 2] += 1;
    for (int i = 0; i < ELEMENTS; i++) {
        float wrong = c[i] - (a[i] + b[i]);
        if (!(wrong <= 1e-5f && wrong >= -1e-5f)) {
            fprintf(stderr, "Result verification failed at element %d!\n", i);
            return 1;
        }
    }
    return 0;
}

/* The part of libcuda's interface that is used, declared here because no header of a CUDA toolkit is needed. */
#define CUDA_FUNCTIONS(F) \
    F(cuInit, (unsigned flags)) \
    F(cuDeviceGetCount, (int *count)) \
    F(cuDeviceGet, (int *device, int index)) \
    F(cuDeviceGetName, (char *name, int size, int device)) \
    F(cuDeviceGetUuid, (void *id, int device)) \
    F(cuDevicePrimaryCtxRetain, (void **context, int device)) \
    F(cuDevicePrimaryCtxRelease, (int device)) \
    F(cuCtxSetCurrent, (void *context)) \
    F(cuCtxSynchronize, (void)) \
    F(cuModuleLoadData, (void **module, const void *image)) \
    F(cuModuleGetFunction, (void **function, void *module, const char *name)) \
    F(cuMemAlloc_v2, (uint64_t *on_gpu, size_t bytes)) \
    F(cuMemFree_v2, (uint64_t on_gpu)) \
    F(cuMemcpyHtoD_v2, (uint64_t on_gpu, const void *on_host, size_t bytes)) \
    F(cuMemcpyDtoH_v2, (void *on_host, uint64_t on_gpu, size_t bytes)) \
    F(cuLaunchKernel, (void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, \
                       unsigned block_y, unsigned block_z, unsigned shared, void *stream, void **arguments, \
                       void **extra)) \
    F(cuGetErrorString, (int status, const char **words))
#define DECLARE(name, parameters) int(*name) parameters;
#define OPEN(name, parameters) \
    if (!(cuda.name = (int(*) parameters)dlsym(library, #name))) { \
        fprintf(stderr, "Error while opening libcuda.so.1: it has no %s!\n", #name); \
        return EXIT_FAILURE; \
    }
static struct {
    CUDA_FUNCTIONS(DECLARE)
} cuda;

static int cuda_failed(const char *doing, int status)
{
    const char *words = NULL;
    if (cuda.cuGetErrorString(status, &words) || !words) words = "unknown error";
    fprintf(stderr, "Error while %s (error code %d: %s)!\n", doing, status, words);
    return EXIT_FAILURE;
}

#define TRY(doing, call) \
    do { \
        int status_ = (call); \
        if (status_) return cuda_failed(doing, status_); \
    } while (0)

/* Adds on the GPU whose context is current. The context's release frees the allocations. */
static int add_on_gpu(void)
{
    void *module = NULL, *function = NULL;
    uint64_t on_gpu[3] = {0, 0, 0};
    unsigned elements = ELEMENTS;
    void *arguments[] = {&on_gpu[0], &on_gpu[1], &on_gpu[2], &elements};
    TRY("compiling the kernel", cuda.cuModuleLoadData(&module, KERNEL));
    TRY("finding the kernel", cuda.cuModuleGetFunction(&function, module, "vector_add"));
    for (int i = 0; i < 3; i++) TRY("allocating GPU memory", cuda.cuMemAlloc_v2(&on_gpu[i], BYTES));
    TRY("copying a vector to the GPU", cuda.cuMemcpyHtoD_v2(on_gpu[0], a, BYTES));
    TRY("copying a vector to the GPU", cuda.cuMemcpyHtoD_v2(on_gpu[1], b, BYTES));
    TRY("copying a vector to the GPU", cuda.cuMemcpyHtoD_v2(on_gpu[2], c, BYTES));
    TRY("starting the kernel", cuda.cuLaunchKernel(function, (ELEMENTS + BLOCK - 1) / BLOCK, 1, 1, BLOCK, 1, 1, 0, NULL,
                                            arguments, NULL));
    TRY("running the kernel", cuda.cuCtxSynchronize());
    TRY("copying the result from the GPU", cuda.cuMemcpyDtoH_v2(c, on_gpu[2], BYTES));
    for (int i = 0; i < 3; i++) TRY("freeing GPU memory", cuda.cuMemFree_v2(on_gpu[i]));
    return EXIT_SUCCESS;
}

static int add_on_every_gpu(void *library)
{
    int count = 0;
    /* From driver 450 on this names a MIG device by its own UUID. */
    void *newer = dlsym(library, "cuDeviceGetUuid_v2");
    CUDA_FUNCTIONS(OPEN)
    if (newer) cuda.cuDeviceGetUuid = (int (*)(void *, int))newer;
    TRY("initializing CUDA", cuda.cuInit(0));
    TRY("counting the GPUs", cuda.cuDeviceGetCount(&count));
    if (!count) return fail("no CUDA-capable device is detected");
    for (int i = 0; i < count; i++) {
        char name[256] = "";
        unsigned char id[16] = {0};
        void *context = NULL;
        int device = 0;
        TRY("opening the GPU", cuda.cuDeviceGet(&device, i));
        TRY("reading the name of the GPU", cuda.cuDeviceGetName(name, (int)sizeof name, device));
        TRY("reading the UUID of the GPU", cuda.cuDeviceGetUuid(id, device));
        printf("GPU %d: %s (UUID: ", i, name);
        for (int byte = 0; byte < 16; byte++)
            printf("%s%02x", byte == 4 || byte == 6 || byte == 8 || byte == 10 ? "-" : "", id[byte]);
        printf(")\n[Vector addition of %d elements]\n", ELEMENTS);
        fflush(stdout);
        TRY("creating a context", cuda.cuDevicePrimaryCtxRetain(&context, device));
        TRY("selecting the context", cuda.cuCtxSetCurrent(context));
        fill();
        if (add_on_gpu() || check()) return EXIT_FAILURE;
        if (!hold) TRY("releasing the context", cuda.cuDevicePrimaryCtxRelease(device));
    }
    puts("Test PASSED");
    puts("Done");
    fflush(stdout);
    while (hold) pause();
    return EXIT_SUCCESS;
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

static int add_simulated(void)
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
    printf("[simulated] [Vector addition of %d elements] on the CPU: no libcuda.so.1, so no CUDA kernel runs\n",
           ELEMENTS);
    fill();
    for (int i = 0; i < ELEMENTS; i++) c[i] = a[i] + b[i];
    if (check()) return EXIT_FAILURE;
    puts("[simulated] Test PASSED");
    puts("Done");
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    corrupt = argc == 2 && !strcmp(argv[1], "--corrupt");
    hold = argc == 2 && !strcmp(argv[1], "--hold");
    if (argc > 2 || (argc == 2 && !corrupt && !hold)) {
        fprintf(stderr, "usage: %s [--corrupt | --hold]\n", argv[0]);
        return 2;
    }
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    return library ? add_on_every_gpu(library) : add_simulated();
}
