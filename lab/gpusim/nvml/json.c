/* Just enough JSON for the state file: objects, arrays, strings without escapes, whole numbers and booleans. */
#include <stddef.h>
#include <string.h>

#include "state.h"

#define FIELD(kind, type, name) {#name, kind, offsetof(struct type, name), sizeof(((struct type *)0)->name)}

enum kind { TEXT, NUMBER };

struct field {
    const char *name;
    enum kind kind;
    size_t offset, size;
};

static const struct field gpu_fields[] = {
    FIELD(TEXT, gpu, uuid), FIELD(TEXT, gpu, name), FIELD(TEXT, gpu, serial), FIELD(TEXT, gpu, bus_id),
    FIELD(TEXT, gpu, vbios), FIELD(TEXT, gpu, board_part_number),
    FIELD(TEXT, gpu, inforom_image), FIELD(TEXT, gpu, inforom_oem), FIELD(TEXT, gpu, inforom_ecc),
    FIELD(NUMBER, gpu, minor), FIELD(NUMBER, gpu, architecture), FIELD(NUMBER, gpu, brand),
    FIELD(NUMBER, gpu, compute_major), FIELD(NUMBER, gpu, compute_minor), FIELD(NUMBER, gpu, numa_node),
    FIELD(NUMBER, gpu, mig_capable), FIELD(NUMBER, gpu, cores), FIELD(NUMBER, gpu, memory_bus_width),
    FIELD(NUMBER, gpu, pci_device_id), FIELD(NUMBER, gpu, pci_subsystem_id), FIELD(NUMBER, gpu, memory_total_mib),
    FIELD(NUMBER, gpu, memory_reserved_mib), FIELD(NUMBER, gpu, bar1_total_mib), FIELD(NUMBER, gpu, bar1_used_mib),
    FIELD(NUMBER, gpu, power_usage_mw), FIELD(NUMBER, gpu, power_limit_mw), FIELD(NUMBER, gpu, power_min_mw),
    FIELD(NUMBER, gpu, power_max_mw), FIELD(NUMBER, gpu, temperature), FIELD(NUMBER, gpu, temperature_shutdown),
    FIELD(NUMBER, gpu, temperature_slowdown), FIELD(NUMBER, gpu, temperature_max),
    FIELD(NUMBER, gpu, memory_temperature), FIELD(NUMBER, gpu, memory_temperature_max),
    FIELD(NUMBER, gpu, clock_graphics), FIELD(NUMBER, gpu, clock_memory), FIELD(NUMBER, gpu, clock_video),
    FIELD(NUMBER, gpu, clock_graphics_max), FIELD(NUMBER, gpu, clock_memory_max), FIELD(NUMBER, gpu, clock_video_max),
    FIELD(NUMBER, gpu, pcie_generation), FIELD(NUMBER, gpu, pcie_width), FIELD(NUMBER, gpu, row_remapping),
    {NULL, TEXT, 0, 0},
};
static const struct field fault_fields[] = {
    FIELD(TEXT, fault, kind), FIELD(NUMBER, fault, gpu), FIELD(NUMBER, fault, xid), FIELD(NUMBER, fault, sequence),
    {NULL, TEXT, 0, 0},
};
static const struct field state_fields[] = {FIELD(TEXT, state, driver), {NULL, TEXT, 0, 0}};

static const char *space(const char *p)
{
    while (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r') p++;
    return p;
}

static const char *text(const char *p, char *out, size_t size)
{
    size_t n = 0;
    if (*p++ != '"') return NULL;
    for (; *p && *p != '"' && *p != '\\'; p++)
        if (out && n + 1 < size) out[n++] = *p;
    if (out && size) out[n] = '\0';
    return *p == '"' ? p + 1 : NULL;
}

static const char *number(const char *p, int *out)
{
    /* Whole numbers may be written as "0x..." text too: PCI ids read better so, and exceed a signed int. */
    int negative = *p == '-';
    unsigned value = 0;
    const char *start = p += negative;
    for (; *p >= '0' && *p <= '9'; p++) value = value * 10 + (unsigned)(*p - '0');
    if (p == start) return NULL;
    if (out) *out = negative ? -(int)value : (int)value;
    return p;
}

int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static const char *hexadecimal(const char *p, int *out)
{
    char digits[12];
    unsigned value = 0;
    p = text(p, digits, sizeof digits);
    if (!p || digits[0] != '0' || digits[1] != 'x') return NULL;
    for (const char *d = digits + 2; *d; d++) {
        int digit = hex_digit(*d);
        if (digit < 0) return NULL;
        value = value * 16 + (unsigned)digit;
    }
    *out = (int)value;
    return p;
}

static const char *boolean(const char *p, int *out)
{
    int value = !strncmp(p, "true", 4);
    if (!value && strncmp(p, "false", 5) && strncmp(p, "null", 4)) return NULL;
    if (out) *out = value;
    return p + (strncmp(p, "false", 5) ? 4 : 5);
}

static const char *skip(const char *p)
{
    if (*p == '"') return text(p, NULL, 0);
    if (*p == '{' || *p == '[') {
        char end = *p == '{' ? '}' : ']';
        p = space(p + 1);
        if (*p == end) return p + 1;
        for (;;) {
            if (end == '}') {
                p = text(p, NULL, 0);
                if (!p || *(p = space(p)) != ':') return NULL;
                p = space(p + 1);
            }
            p = skip(p);
            if (!p) return NULL;
            p = space(p);
            if (*p == end) return p + 1;
            if (*p++ != ',') return NULL;
            p = space(p);
        }
    }
    return *p == '-' || (*p >= '0' && *p <= '9') ? number(p, NULL) : boolean(p, NULL);
}

static const char *value(const char *p, const struct field *field, char *base)
{
    void *target = base + field->offset;
    if (field->kind == TEXT) return text(p, target, field->size);
    if (*p == '"') return hexadecimal(p, target);
    return *p == '-' || (*p >= '0' && *p <= '9') ? number(p, target) : boolean(p, target);
}

static const char *object(const char *p, const struct field *fields, void *base, struct state *nested);

static const char *array(const char *p, const struct field *fields, char *base, size_t size, int limit, int *count)
{
    if (*p != '[') return NULL;
    p = space(p + 1);
    if (*p == ']') return p + 1;
    for (;;) {
        p = *count < limit ? object(p, fields, base + (size_t)(*count)++ * size, NULL) : skip(p);
        if (!p) return NULL;
        p = space(p);
        if (*p == ']') return p + 1;
        if (*p++ != ',') return NULL;
        p = space(p);
    }
}

static const char *object(const char *p, const struct field *fields, void *base, struct state *nested)
{
    if (*p != '{') return NULL;
    p = space(p + 1);
    if (*p == '}') return p + 1;
    for (;;) {
        char key[32];
        p = text(p, key, sizeof key);
        if (!p || *(p = space(p)) != ':') return NULL;
        p = space(p + 1);
        const struct field *field = fields;
        while (field->name && strcmp(field->name, key)) field++;
        if (field->name)
            p = value(p, field, base);
        else if (nested && !strcmp(key, "silicon"))
            p = object(p, fields, base, nested);
        else if (nested && !strcmp(key, "gpus"))
            p = array(p, gpu_fields, (char *)nested->gpu, sizeof(struct gpu), MAX_GPUS, &nested->gpus);
        else if (nested && !strcmp(key, "faults"))
            p = array(p, fault_fields, (char *)nested->fault, sizeof(struct fault), MAX_FAULTS, &nested->faults);
        else
            p = skip(p);
        if (!p) return NULL;
        p = space(p);
        if (*p == '}') return p + 1;
        if (*p++ != ',') return NULL;
        p = space(p);
    }
}

int state_parse(const char *document, struct state *out)
{
    memset(out, 0, sizeof *out);
    const char *end = object(space(document), state_fields, out, out);
    return end && *space(end) == '\0' ? 0 : -1;
}
