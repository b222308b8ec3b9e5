/* Cutting GPUs: the mode, GPU instances, compute instances, and the MIG devices that they make. */
#include <stdio.h>
#include <string.h>

#include "mig.h"

struct nvmlGpuInstance_st {
    nvmlDevice_t device;
    int gpu, id;
};

struct nvmlComputeInstance_st {
    nvmlGpuInstance_t gi;
    int id;
};

static struct nvmlGpuInstance_st gi_handles[MAX_GPUS][MAX_GI_IDS];
static struct nvmlComputeInstance_st ci_handles[MAX_GPUS][MAX_GI_IDS][MAX_CI_IDS];
static struct nvmlDevice_st mig_handles[MAX_GPUS][MAX_GI_IDS][MAX_CI_IDS];

static nvmlGpuInstance_t gi_handle(nvmlDevice_t device, int id)
{
    nvmlGpuInstance_t handle = &gi_handles[device->gpu][id];
    *handle = (struct nvmlGpuInstance_st){device, device->gpu, id};
    return handle;
}

static nvmlComputeInstance_t ci_handle(nvmlGpuInstance_t gi, int id)
{
    nvmlComputeInstance_t handle = &ci_handles[gi->gpu][gi->id][id];
    *handle = (struct nvmlComputeInstance_st){gi, id};
    return handle;
}

static struct gpu_instance *find_gi(struct mig *mig, int gpu, int id)
{
    for (int i = 0; i < mig->gis; i++)
        if (mig->gi[i].gpu == gpu && mig->gi[i].id == id) return &mig->gi[i];
    return NULL;
}

static struct compute_instance *find_ci(struct mig *mig, int gpu, int gi, int id)
{
    for (int i = 0; i < mig->cis; i++)
        if (mig->ci[i].gpu == gpu && mig->ci[i].gi == gi && mig->ci[i].id == id) return &mig->ci[i];
    return NULL;
}

/* Declares `mig` and `gpu` of a device that is in MIG mode, or returns the reason why it isn't. */
#define MIG_DEVICE(device) \
    DEVICE(device); \
    struct mig mig; \
    if (!gpu->mig_capable) return NVML_ERROR_NOT_SUPPORTED; \
    mig_read(&mig); \
    if (!mig.current[gpu->minor]) return NVML_ERROR_NOT_SUPPORTED; \
    (void)state

/* The mode */
nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending)
{
    struct mig mig;
    DEVICE(device);
    NEED(current && pending);
    if (!gpu->mig_capable) return NVML_ERROR_NOT_SUPPORTED;
    mig_read(&mig);
    *current = (unsigned)mig.current[gpu->minor];
    *pending = (unsigned)mig.pending[gpu->minor];
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceSetMigMode(nvmlDevice_t device, unsigned int mode, nvmlReturn_t *status)
{
    struct mig mig;
    DEVICE(device);
    NEED(status && mode <= NVML_DEVICE_MIG_ENABLE);
    if (!gpu->mig_capable) return NVML_ERROR_NOT_SUPPORTED;
    nvmlReturn_t result = mig_begin(&mig);
    if (result != NVML_SUCCESS) return result;
    int minor = gpu->minor, used = mig_others();
    for (int i = 0; i < mig.gis; i++) used |= mig.gi[i].gpu == minor;
    mig.pending[minor] = (int)mode;
    /* An Ampere is reset for this, which needs to be alone with it. Until then the change is pending. */
    if (!used) mig.current[minor] = (int)mode;
    *status = mig.current[minor] == (int)mode ? NVML_SUCCESS : NVML_ERROR_IN_USE;
    return mig_end(&mig);
}

/* GPU instances */
static int overlaps(const struct mig *mig, int gpu, unsigned start, unsigned size)
{
    for (int i = 0; i < mig->gis; i++) {
        const struct gpu_instance *gi = &mig->gi[i];
        const struct mig_profile *p = mig_profile_of_id((unsigned)gi->profile);
        unsigned first = (unsigned)gi->start;
        if (gi->gpu == gpu && p && start < first + p->size && first < start + size) return 1;
    }
    return 0;
}

/* Beside the memory, the compute slices and the media engines have to suffice. */
static int exceeds(const struct mig *mig, int gpu, const struct mig_profile *wanted)
{
    unsigned slices = wanted->slices, same = 1;
    for (int i = 0; i < mig->gis; i++) {
        const struct mig_profile *p = mig_profile_of_id((unsigned)mig->gi[i].profile);
        if (mig->gi[i].gpu != gpu || !p) continue;
        slices += p->slices;
        same += p == wanted;
    }
    return slices > MIG_PER_GPU || same > wanted->total;
}

static unsigned remaining(const struct mig *mig, int gpu, const struct mig_profile *p)
{
    struct mig tried = *mig;
    unsigned count = 0;
    for (unsigned i = 0; i < p->starts; i++)
        if (!overlaps(&tried, gpu, p->start[i], p->size) && !exceeds(&tried, gpu, p)) {
            tried.gi[tried.gis++] = (struct gpu_instance){gpu, -1, (int)p->id, (int)p->start[i]};
            count++;
        }
    return count;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceRemainingCapacity(nvmlDevice_t device, unsigned int id, unsigned int *count)
{
    MIG_DEVICE(device);
    const struct mig_profile *p = mig_profile_of_id(id);
    NEED(count && p);
    *count = remaining(&mig, gpu->minor, p);
    return NVML_SUCCESS;
}

static nvmlReturn_t create_gi(nvmlDevice_t device, unsigned id, const nvmlGpuInstancePlacement_t *wanted,
                              nvmlGpuInstance_t *out)
{
    MIG_DEVICE(device);
    const struct mig_profile *p = mig_profile_of_id(id);
    NEED(out && p);
    nvmlReturn_t result = mig_begin(&mig);
    if (result != NVML_SUCCESS) return result;
    int start = -1, number = p->first_id, minor = gpu->minor;
    for (unsigned i = 0; i < p->starts && start < 0; i++)
        if (!overlaps(&mig, minor, p->start[i], p->size) && (!wanted || wanted->start == p->start[i]))
            start = (int)p->start[i];
    while (number < MAX_GI_IDS && find_gi(&mig, minor, number)) number++;
    if (start < 0 || number >= MAX_GI_IDS || exceeds(&mig, minor, p)) {
        mig_end(NULL);
        return NVML_ERROR_INSUFFICIENT_RESOURCES;
    }
    mig.gi[mig.gis++] = (struct gpu_instance){minor, number, (int)id, start};
    mig_node(gpu, number, -1, 1);
    *out = gi_handle(device, number);
    return mig_end(&mig);
}

nvmlReturn_t nvmlDeviceCreateGpuInstance(nvmlDevice_t device, unsigned int id, nvmlGpuInstance_t *out)
{
    return create_gi(device, id, NULL, out);
}

nvmlReturn_t nvmlDeviceCreateGpuInstanceWithPlacement(nvmlDevice_t device, unsigned int id,
                                                      const nvmlGpuInstancePlacement_t *placement,
                                                      nvmlGpuInstance_t *out)
{
    NEED(placement);
    return create_gi(device, id, placement, out);
}

nvmlReturn_t nvmlGpuInstanceDestroy(nvmlGpuInstance_t gi)
{
    NEED(gi);
    MIG_DEVICE(gi->device);
    nvmlReturn_t result = mig_begin(&mig);
    if (result != NVML_SUCCESS) return result;
    struct gpu_instance *found = find_gi(&mig, gpu->minor, gi->id);
    int used = !found;
    for (int i = 0; i < mig.cis; i++) used |= mig.ci[i].gpu == gpu->minor && mig.ci[i].gi == gi->id;
    if (used) {
        mig_end(NULL);
        return found ? NVML_ERROR_IN_USE : NVML_ERROR_NOT_FOUND;
    }
    *found = mig.gi[--mig.gis];
    mig_node(gpu, gi->id, -1, 0);
    return mig_end(&mig);
}

nvmlReturn_t nvmlDeviceGetGpuInstances(nvmlDevice_t device, unsigned int id, nvmlGpuInstance_t *out,
                                       unsigned int *count)
{
    MIG_DEVICE(device);
    NEED(count && mig_profile_of_id(id));
    *count = 0;
    for (int i = 0; i < mig.gis; i++)
        if (mig.gi[i].gpu == gpu->minor && mig.gi[i].profile == (int)id && mig_gi_visible(gpu, mig.gi[i].id)) {
            if (out) out[*count] = gi_handle(device, mig.gi[i].id);
            ++*count;
        }
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceById(nvmlDevice_t device, unsigned int id, nvmlGpuInstance_t *out)
{
    MIG_DEVICE(device);
    NEED(out);
    if (id >= MAX_GI_IDS || !find_gi(&mig, gpu->minor, (int)id) || !mig_gi_visible(gpu, (int)id))
        return NVML_ERROR_NOT_FOUND;
    *out = gi_handle(device, (int)id);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpuInstanceGetInfo(nvmlGpuInstance_t gi, nvmlGpuInstanceInfo_t *info)
{
    NEED(gi && info);
    MIG_DEVICE(gi->device);
    const struct gpu_instance *found = find_gi(&mig, gpu->minor, gi->id);
    if (!found) return NVML_ERROR_NOT_FOUND;
    const struct mig_profile *p = mig_profile_of_id((unsigned)found->profile);
    *info = (nvmlGpuInstanceInfo_t){gi->device, (unsigned)gi->id, (unsigned)found->profile,
                                    {(unsigned)found->start, p->size}};
    return NVML_SUCCESS;
}

/* Compute instances: of one, two, three, four or all compute slices of their GPU instance. */
static const unsigned ci_slices[] = {1, 2, 3, 4, 7};

#define GPU_INSTANCE(gi) \
    NEED(gi); \
    MIG_DEVICE((gi)->device); \
    const struct gpu_instance *found = find_gi(&mig, gpu->minor, (gi)->id); \
    if (!found) return NVML_ERROR_NOT_FOUND; \
    const struct mig_profile *whole = mig_profile_of_id((unsigned)found->profile)

static int fits(const struct mig_profile *whole, unsigned kind)
{
    return kind < sizeof ci_slices / sizeof *ci_slices && ci_slices[kind] <= whole->slices;
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfo(nvmlGpuInstance_t gi, unsigned int kind, unsigned int engine,
                                                          nvmlComputeInstanceProfileInfo_t *info)
{
    GPU_INSTANCE(gi);
    NEED(info && kind < NVML_COMPUTE_INSTANCE_PROFILE_COUNT && engine < NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_COUNT);
    if (!fits(whole, kind)) return NVML_ERROR_NOT_SUPPORTED;
    unsigned slices = ci_slices[kind];
    *info = (nvmlComputeInstanceProfileInfo_t){kind, slices, whole->slices / slices,
                                               whole->multiprocessors / whole->slices * slices, whole->copy_engines,
                                               whole->decoders, whole->encoders, whole->jpeg, whole->ofa};
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfoV(nvmlGpuInstance_t gi, unsigned int kind,
                                                           unsigned int engine,
                                                           nvmlComputeInstanceProfileInfo_v2_t *info)
{
    nvmlComputeInstanceProfileInfo_t plain;
    char name[64];
    GPU_INSTANCE(gi);
    NEED(info);
    int newest = info->version == nvmlComputeInstanceProfileInfo_v3;
    if (!newest && info->version != nvmlComputeInstanceProfileInfo_v2) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    nvmlReturn_t result = nvmlGpuInstanceGetComputeInstanceProfileInfo(gi, kind, engine, &plain);
    if (result != NVML_SUCCESS) return result;
    /* "1c.3g.20gb" is a part of its GPU instance, "3g.20gb" the whole of it. */
    if (plain.sliceCount < whole->slices)
        snprintf(name, sizeof name, "MIG %uc.%s", plain.sliceCount, whole->name);
    else
        snprintf(name, sizeof name, "MIG %s", whole->name);
    info->id = plain.id;
    info->sliceCount = plain.sliceCount;
    info->instanceCount = plain.instanceCount;
    info->multiprocessorCount = plain.multiprocessorCount;
    info->sharedCopyEngineCount = plain.sharedCopyEngineCount;
    info->sharedDecoderCount = plain.sharedDecoderCount;
    info->sharedEncoderCount = plain.sharedEncoderCount;
    info->sharedJpegCount = plain.sharedJpegCount;
    info->sharedOfaCount = plain.sharedOfaCount;
    strcpy(info->name, name);
    /* The newer structure goes on where the older ends. */
    if (newest) ((nvmlComputeInstanceProfileInfo_v3_t *)(void *)info)->capabilities = 0;
    return NVML_SUCCESS;
}

static int slice_taken(const struct mig *mig, const struct gpu_instance *gi, unsigned slice)
{
    for (int i = 0; i < mig->cis; i++) {
        const struct compute_instance *ci = &mig->ci[i];
        unsigned first = (unsigned)ci->start;
        if (ci->gpu == gi->gpu && ci->gi == gi->id && slice >= first && slice < first + ci_slices[ci->profile]) return 1;
    }
    return 0;
}

static int free_slices(const struct mig *mig, const struct gpu_instance *gi, unsigned total, unsigned wanted)
{
    for (unsigned start = 0; start + wanted <= total; start++) {
        unsigned length = 0;
        while (length < wanted && !slice_taken(mig, gi, start + length)) length++;
        if (length == wanted) return (int)start;
    }
    return -1;
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceRemainingCapacity(nvmlGpuInstance_t gi, unsigned int kind,
                                                                unsigned int *count)
{
    GPU_INSTANCE(gi);
    NEED(count && fits(whole, kind));
    unsigned open = 0;
    for (unsigned slice = 0; slice < whole->slices; slice++) open += !slice_taken(&mig, found, slice);
    *count = open / ci_slices[kind];
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstancePossiblePlacements(nvmlGpuInstance_t gi, unsigned int kind,
                                                                 nvmlComputeInstancePlacement_t *out,
                                                                 unsigned int *count)
{
    GPU_INSTANCE(gi);
    NEED(count && fits(whole, kind));
    *count = whole->slices / ci_slices[kind];
    for (unsigned i = 0; out && i < *count; i++)
        out[i] = (nvmlComputeInstancePlacement_t){i * ci_slices[kind], ci_slices[kind]};
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpuInstanceCreateComputeInstance(nvmlGpuInstance_t gi, unsigned int kind, nvmlComputeInstance_t *out)
{
    GPU_INSTANCE(gi);
    NEED(out && fits(whole, kind));
    nvmlReturn_t result = mig_begin(&mig);
    if (result != NVML_SUCCESS) return result;
    int number = 0, start = free_slices(&mig, found, whole->slices, ci_slices[kind]);
    while (number < MAX_CI_IDS && find_ci(&mig, gpu->minor, gi->id, number)) number++;
    if (start < 0 || number >= MAX_CI_IDS) {
        mig_end(NULL);
        return NVML_ERROR_INSUFFICIENT_RESOURCES;
    }
    mig.ci[mig.cis++] = (struct compute_instance){gpu->minor, gi->id, number, (int)kind, start};
    mig_node(gpu, gi->id, number, 1);
    *out = ci_handle(gi, number);
    return mig_end(&mig);
}

nvmlReturn_t nvmlComputeInstanceDestroy(nvmlComputeInstance_t ci)
{
    NEED(ci);
    MIG_DEVICE(ci->gi->device);
    nvmlReturn_t result = mig_begin(&mig);
    if (result != NVML_SUCCESS) return result;
    struct compute_instance *found = find_ci(&mig, gpu->minor, ci->gi->id, ci->id);
    if (!found) {
        mig_end(NULL);
        return NVML_ERROR_NOT_FOUND;
    }
    *found = mig.ci[--mig.cis];
    mig_node(gpu, ci->gi->id, ci->id, 0);
    return mig_end(&mig);
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstances(nvmlGpuInstance_t gi, unsigned int kind, nvmlComputeInstance_t *out,
                                                unsigned int *count)
{
    GPU_INSTANCE(gi);
    NEED(count);
    *count = 0;
    (void)whole;
    for (int i = 0; i < mig.cis; i++) {
        const struct compute_instance *ci = &mig.ci[i];
        if (ci->gpu != gpu->minor || ci->gi != gi->id || ci->profile != (int)kind) continue;
        if (!mig_ci_visible(gpu, gi->id, ci->id)) continue;
        if (out) out[*count] = ci_handle(gi, ci->id);
        ++*count;
    }
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceById(nvmlGpuInstance_t gi, unsigned int id, nvmlComputeInstance_t *out)
{
    GPU_INSTANCE(gi);
    NEED(out);
    (void)whole;
    if (id >= MAX_CI_IDS || !find_ci(&mig, gpu->minor, gi->id, (int)id) || !mig_ci_visible(gpu, gi->id, (int)id))
        return NVML_ERROR_NOT_FOUND;
    *out = ci_handle(gi, (int)id);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlComputeInstanceGetInfo_v2(nvmlComputeInstance_t ci, nvmlComputeInstanceInfo_t *info)
{
    NEED(ci && info);
    MIG_DEVICE(ci->gi->device);
    const struct compute_instance *found = find_ci(&mig, gpu->minor, ci->gi->id, ci->id);
    if (!found) return NVML_ERROR_NOT_FOUND;
    *info = (nvmlComputeInstanceInfo_t){ci->gi->device, ci->gi, (unsigned)ci->id, (unsigned)found->profile,
                                        {(unsigned)found->start, ci_slices[found->profile]}};
    return NVML_SUCCESS;
}

/* MIG devices: one for each compute instance, in the order of their numbers */
nvmlReturn_t mig_device(nvmlDevice_t device, struct mig_device *out)
{
    struct mig mig;
    const struct state *state;
    nvmlReturn_t result = session_state(&state);
    if (result != NVML_SUCCESS) return result;
    if ((char *)device < (char *)mig_handles || (char *)device >= (char *)mig_handles + sizeof mig_handles)
        return NVML_ERROR_INVALID_ARGUMENT;
    mig_read(&mig);
    size_t place = (size_t)(device - &mig_handles[0][0][0]);
    int id = (int)(place % MAX_CI_IDS), gi = (int)(place / MAX_CI_IDS % MAX_GI_IDS);
    out->gpu = &state->gpu[device->gpu];
    const struct gpu_instance *instance = find_gi(&mig, out->gpu->minor, gi);
    const struct compute_instance *compute = find_ci(&mig, out->gpu->minor, gi, id);
    if (!instance || !compute) return NVML_ERROR_NOT_FOUND;
    out->gi = *instance;
    out->ci = *compute;
    out->profile = mig_profile_of_id((unsigned)instance->profile);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int *is_mig)
{
    NEED(is_mig);
    *is_mig = (char *)device >= (char *)mig_handles && (char *)device < (char *)mig_handles + sizeof mig_handles;
    if (*is_mig) return NVML_SUCCESS;
    KNOWN_DEVICE(device);
    (void)gpu;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count)
{
    DEVICE(device);
    NEED(count);
    *count = gpu->mig_capable ? MIG_PER_GPU : 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index, nvmlDevice_t *out)
{
    DEVICE(device);
    struct mig mig;
    NEED(out);
    if (!gpu->mig_capable) return NVML_ERROR_NOT_SUPPORTED;
    mig_read(&mig);
    unsigned number = index;
    for (int gi = 0; gi < MAX_GI_IDS; gi++)
        for (int ci = 0; ci < MAX_CI_IDS; ci++) {
            if (!find_ci(&mig, gpu->minor, gi, ci) || !mig_ci_visible(gpu, gi, ci) || index--) continue;
            *out = &mig_handles[device->gpu][gi][ci];
            **out = (struct nvmlDevice_st){number, device->gpu, device};
            return NVML_SUCCESS;
        }
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t device, nvmlDevice_t *parent)
{
    struct mig_device mig;
    NEED(parent);
    nvmlReturn_t result = mig_device(device, &mig);
    if (result == NVML_SUCCESS) *parent = device->parent;
    return result;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned int *id)
{
    struct mig_device mig;
    NEED(id);
    nvmlReturn_t result = mig_device(device, &mig);
    if (result == NVML_SUCCESS) *id = (unsigned)mig.gi.id;
    return result;
}

nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned int *id)
{
    struct mig_device mig;
    NEED(id);
    nvmlReturn_t result = mig_device(device, &mig);
    if (result == NVML_SUCCESS) *id = (unsigned)mig.ci.id;
    return result;
}

nvmlReturn_t mig_find(const char *uuid, nvmlDevice_t *device)
{
    unsigned count = 0;
    char own[48];
    nvmlDeviceGetCount_v2(&count);
    for (unsigned i = 0; i < count; i++) {
        nvmlDevice_t parent, found;
        struct mig_device mig;
        if (nvmlDeviceGetHandleByIndex_v2(i, &parent) != NVML_SUCCESS) continue;
        for (unsigned j = 0; nvmlDeviceGetMigDeviceHandleByIndex(parent, j, &found) == NVML_SUCCESS; j++) {
            if (mig_device(found, &mig) != NVML_SUCCESS) continue;
            mig_uuid(mig.gpu, mig.gi.id, mig.ci.id, own);
            if (strcmp(own, uuid)) continue;
            *device = found;
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_NOT_FOUND;
}
