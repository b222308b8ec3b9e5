/* The ways to cut an A100 with 40 GB, and what an instance is, as a device: docs.nvidia.com/datacenter/tesla/mig. */
#include <stdio.h>
#include <string.h>

#include "mig.h"

#define REFERENCE_MIB 40960

static const struct mig_profile profiles[] = {
    {NVML_GPU_INSTANCE_PROFILE_1_SLICE, 19, "1g.5gb", 1, 1, 7, 14, 1, 0, 0, 0, 0, 4864, 7, {0, 1, 2, 3, 4, 5, 6}, 7},
    {NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV1, 20, "1g.5gb+me", 1, 1, 1, 14, 1, 1, 0, 1, 1, 4864, 7,
     {0, 1, 2, 3, 4, 5, 6}, 7},
    {NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV2, 15, "1g.10gb", 1, 2, 4, 14, 1, 1, 0, 0, 0, 9856, 4, {0, 2, 4, 6}, 3},
    {NVML_GPU_INSTANCE_PROFILE_2_SLICE, 14, "2g.10gb", 2, 2, 3, 28, 2, 1, 0, 0, 0, 9984, 3, {0, 2, 4}, 3},
    {NVML_GPU_INSTANCE_PROFILE_3_SLICE, 9, "3g.20gb", 3, 4, 2, 42, 3, 2, 0, 0, 0, 20096, 2, {0, 4}, 1},
    {NVML_GPU_INSTANCE_PROFILE_4_SLICE, 5, "4g.20gb", 4, 4, 1, 56, 4, 2, 0, 0, 0, 20096, 1, {0}, 1},
    {NVML_GPU_INSTANCE_PROFILE_7_SLICE, 0, "7g.40gb", 7, 8, 1, 98, 7, 5, 0, 1, 1, 40448, 1, {0}, 0},
};
#define PROFILES (sizeof profiles / sizeof *profiles)

const struct mig_profile *mig_profile_of_kind(unsigned kind)
{
    for (size_t i = 0; i < PROFILES; i++)
        if (profiles[i].kind == kind) return &profiles[i];
    return NULL;
}

const struct mig_profile *mig_profile_of_id(unsigned id)
{
    for (size_t i = 0; i < PROFILES; i++)
        if (profiles[i].id == id) return &profiles[i];
    return NULL;
}

unsigned mig_memory_mib(const struct gpu *gpu, const struct mig_profile *profile)
{
    return (unsigned)((unsigned long long)profile->memory_mib * (unsigned)gpu->memory_total_mib / REFERENCE_MIB);
}

static unsigned long long mixed(const char *text, int gi, int ci, unsigned long long seed)
{
    unsigned long long hash = 1469598103934665603ULL ^ seed;
    for (; *text; text++) hash = (hash ^ (unsigned char)*text) * 1099511628211ULL;
    hash = (hash ^ (unsigned)(gi * 64 + ci + 1)) * 1099511628211ULL;
    return hash ^ hash >> 29;
}

/* The same instance of the same GPU has the same identity whenever it is made, as those of a real GPU have. */
void mig_uuid(const struct gpu *gpu, int gi, int ci, char out[48])
{
    unsigned long long a = mixed(gpu->uuid, gi, ci, 0), b = mixed(gpu->uuid, gi, ci, 0x9e3779b97f4a7c15ULL);
    snprintf(out, 48, "MIG-%08x-%04x-5%03x-a%03x-%012llx", (unsigned)(a >> 32), (unsigned)(a >> 16) & 0xffff,
             (unsigned)a & 0xfff, (unsigned)(b >> 48) & 0xfff, b & 0xffffffffffffULL);
}

nvmlReturn_t mig_name(nvmlDevice_t device, char *text, unsigned int length)
{
    struct mig_device mig;
    char name[128];
    nvmlReturn_t result = mig_device(device, &mig);
    if (result != NVML_SUCCESS) return result;
    snprintf(name, sizeof name, "%s MIG %s", mig.gpu->name, mig.profile->name);
    return session_text(text, length, name);
}

nvmlReturn_t mig_memory(nvmlDevice_t device, unsigned long long *bytes)
{
    struct mig_device mig;
    nvmlReturn_t result = mig_device(device, &mig);
    if (result == NVML_SUCCESS) *bytes = (unsigned long long)mig_memory_mib(mig.gpu, mig.profile) << 20;
    return result;
}

nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t *attributes)
{
    struct mig_device mig;
    NEED(attributes);
    nvmlReturn_t result = mig_device(device, &mig);
    if (result != NVML_SUCCESS) return result;
    const struct mig_profile *p = mig.profile;
    *attributes = (nvmlDeviceAttributes_t){p->multiprocessors, p->copy_engines, p->decoders, p->encoders, p->jpeg,
                                           p->ofa, p->slices, p->slices, mig_memory_mib(mig.gpu, p)};
    return NVML_SUCCESS;
}

static const struct mig_profile *known(nvmlDevice_t device, unsigned wanted, int by_id, const struct gpu **gpu,
                                       nvmlReturn_t *result)
{
    const struct state *state;
    *result = session_device(device, &state, gpu);
    if (*result != NVML_SUCCESS) return NULL;
    const struct mig_profile *p = by_id ? mig_profile_of_id(wanted) : mig_profile_of_kind(wanted);
    if (!p || !(*gpu)->mig_capable)
        *result = !by_id && wanted >= NVML_GPU_INSTANCE_PROFILE_COUNT ? NVML_ERROR_INVALID_ARGUMENT
                                                                      : NVML_ERROR_NOT_SUPPORTED;
    return *result == NVML_SUCCESS ? p : NULL;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t device, unsigned int kind,
                                                 nvmlGpuInstanceProfileInfo_t *info)
{
    const struct gpu *gpu;
    nvmlReturn_t result;
    NEED(info);
    const struct mig_profile *p = known(device, kind, 0, &gpu, &result);
    if (!p) return result;
    *info = (nvmlGpuInstanceProfileInfo_t){p->id, 0, p->slices, p->total, p->multiprocessors, p->copy_engines,
                                           p->decoders, p->encoders, p->jpeg, p->ofa, mig_memory_mib(gpu, p)};
    return NVML_SUCCESS;
}

static nvmlReturn_t versioned(const struct gpu *gpu, const struct mig_profile *p, nvmlGpuInstanceProfileInfo_v2_t *info)
{
    if (info->version == nvmlGpuInstanceProfileInfo_v2) {
        *info = (nvmlGpuInstanceProfileInfo_v2_t){info->version, p->id, 0, p->slices, p->total, p->multiprocessors,
                                                  p->copy_engines, p->decoders, p->encoders, p->jpeg, p->ofa,
                                                  mig_memory_mib(gpu, p), ""};
        snprintf(info->name, sizeof info->name, "MIG %s", p->name);
        return NVML_SUCCESS;
    }
    if (info->version == nvmlGpuInstanceProfileInfo_v3) {
        nvmlGpuInstanceProfileInfo_v3_t *newer = (void *)info;
        *newer = (nvmlGpuInstanceProfileInfo_v3_t){newer->version, p->id, p->slices, p->total, p->multiprocessors,
                                                   p->copy_engines, p->decoders, p->encoders, p->jpeg, p->ofa,
                                                   mig_memory_mib(gpu, p), "", 0};
        snprintf(newer->name, sizeof newer->name, "MIG %s", p->name);
        return NVML_SUCCESS;
    }
    return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t device, unsigned int kind,
                                                  nvmlGpuInstanceProfileInfo_v2_t *info)
{
    const struct gpu *gpu;
    nvmlReturn_t result;
    NEED(info);
    const struct mig_profile *p = known(device, kind, 0, &gpu, &result);
    return p ? versioned(gpu, p, info) : result;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoByIdV(nvmlDevice_t device, unsigned int id,
                                                      nvmlGpuInstanceProfileInfo_v2_t *info)
{
    const struct gpu *gpu;
    nvmlReturn_t result;
    NEED(info);
    const struct mig_profile *p = known(device, id, 1, &gpu, &result);
    return p ? versioned(gpu, p, info) : result;
}

nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements_v2(nvmlDevice_t device, unsigned int id,
                                                           nvmlGpuInstancePlacement_t *placements, unsigned int *count)
{
    const struct gpu *gpu;
    nvmlReturn_t result;
    NEED(count);
    const struct mig_profile *p = known(device, id, 1, &gpu, &result);
    if (!p) return result;
    for (unsigned i = 0; placements && i < p->starts; i++)
        placements[i] = (nvmlGpuInstancePlacement_t){p->start[i], p->size};
    *count = p->starts;
    return NVML_SUCCESS;
}
