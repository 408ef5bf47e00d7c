/* A stand-in for libnvidia-ml.so.1, to be loaded by the real Python binding: NVML's calls as far as this
 * project makes them, with the structures' layout as nvml.h has it, behaving as its script says. */
#include "script.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
    OK = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7,
    TIMEOUT = 10, VERSION_MISMATCH = 25
};

/* What a handle points to: a card, or an instance on it. */
struct device { int index, instance; };
static struct device whole[MAX_CARDS], parts[MAX_CARDS][8];
static int initialised;

#define FAIL(device)                                                          \
    do {                                                                      \
        if (!initialised) return UNINITIALIZED;                               \
        int failed = script_result(__func__, (device) ? (device)->index : -1); \
        if (failed) return failed;                                            \
    } while (0)
#define WHOLE_ONLY(device) do { if ((device)->instance >= 0) return NOT_SUPPORTED; } while (0)

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    script_load();
    int failed = script_result(__func__, -1);
    if (!failed) initialised++;
    return failed;
}

int nvmlShutdown(void) {
    if (!initialised) return UNINITIALIZED;
    initialised--;
    return OK;
}

const char *nvmlErrorString(int code) {
    static char text[32];
    snprintf(text, sizeof text, "stand-in error %d", code);
    return text;
}

int nvmlSystemGetDriverVersion(char *text, unsigned length) {
    FAIL((struct device *)0);
    snprintf(text, length, "580.65.06");
    return OK;
}

int nvmlSystemGetCudaDriverVersion_v2(int *version) {
    FAIL((struct device *)0);
    *version = 13000;
    return OK;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    FAIL((struct device *)0);
    *count = script_cards();
    return OK;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct device **device) {
    if (!script_card(index)) return INVALID_ARGUMENT;
    whole[index] = (struct device){(int)index, -1};
    FAIL(&whole[index]);
    *device = &whole[index];
    return OK;
}

int nvmlDeviceGetMigDeviceHandleByIndex(struct device *card, unsigned place, struct device **device) {
    FAIL(card);
    if ((int)place >= script_card(card->index)->mig) return NOT_FOUND;
    parts[card->index][place] = (struct device){card->index, (int)place};
    *device = &parts[card->index][place];
    return OK;
}

static void uuid_of(const struct device *device, char *text, unsigned length) {
    const char *uuid = script_card(device->index)->uuid;
    if (device->instance < 0) snprintf(text, length, "%s", uuid);
    else snprintf(text, length, "MIG-%d-%s", device->instance, uuid);
}

int nvmlDeviceGetHandleByUUID(const char *uuid, struct device **device) {
    char own[96];
    if (!initialised) return UNINITIALIZED;
    for (int i = 0; i < script_cards(); i++) {
        whole[i] = (struct device){i, -1};
        int places = script_card(i)->mig > 0 ? script_card(i)->mig : 0;
        for (int place = -1; place < places; place++) {
            struct device *each = place < 0 ? &whole[i] : &parts[i][place];
            *each = (struct device){i, place};
            uuid_of(each, own, sizeof own);
            if (strcmp(own, uuid)) continue;
            FAIL(each);
            *device = each;
            return OK;
        }
    }
    return NOT_FOUND;
}

int nvmlDeviceGetUUID(struct device *device, char *text, unsigned length) {
    FAIL(device);
    uuid_of(device, text, length);
    return OK;
}

int nvmlDeviceGetName(struct device *device, char *text, unsigned length) {
    FAIL(device);
    snprintf(text, length, device->instance < 0 ? "NVIDIA Stand-in" : "NVIDIA Stand-in MIG 1g.18gb");
    return OK;
}

int nvmlDeviceGetVbiosVersion(struct device *device, char *text, unsigned length) {
    FAIL(device);
    snprintf(text, length, "96.00.99.00.01");
    return OK;
}

int nvmlDeviceGetMigMode(struct device *device, unsigned *now, unsigned *pending) {
    FAIL(device);
    if (script_card(device->index)->mig < 0) return NOT_SUPPORTED;
    *now = *pending = 1;
    return OK;
}

int nvmlDeviceGetMaxMigDeviceCount(struct device *device, unsigned *count) {
    FAIL(device);
    *count = 7;
    return OK;
}

int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(struct device *part, struct device **card) {
    FAIL(part);
    *card = &whole[part->index];
    return OK;
}

int nvmlDeviceGetGpuInstanceId(struct device *part, unsigned *id) {
    FAIL(part);
    *id = part->instance;
    return OK;
}

int nvmlDeviceGetComputeInstanceId(struct device *part, unsigned *id) {
    FAIL(part);
    *id = 0;
    return OK;
}

int nvmlDeviceGetMinorNumber(struct device *device, unsigned *minor) {
    FAIL(device);
    WHOLE_ONLY(device);
    *minor = (unsigned)device->index;
    return OK;
}

/* Calls of the form (device, unsigned *): one line each. */
#define NUMBER(function, name, fallback)                \
    int function(struct device *device, unsigned *out) { \
        FAIL(device);                                   \
        WHOLE_ONLY(device);                             \
        *out = (unsigned)script_value(name, fallback);  \
        return OK;                                      \
    }
NUMBER(nvmlDeviceGetPowerUsage, "power_usage", 300000)
NUMBER(nvmlDeviceGetEnforcedPowerLimit, "limit", 700000)
NUMBER(nvmlDeviceGetPowerManagementDefaultLimit, "default_limit", 700000)
NUMBER(nvmlDeviceGetPersistenceMode, "persistence", 1)
NUMBER(nvmlDeviceGetPerformanceState, "pstate", 0)
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, "max_gen", 5)
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, "max_width", 16)
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, "gen", 5)
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, "width", 16)

/* Calls of the form (device, which, unsigned *). */
#define CHOICE(function, name, fallback)                           \
    int function(struct device *device, int which, unsigned *out) { \
        char key[32];                                              \
        FAIL(device);                                              \
        WHOLE_ONLY(device);                                        \
        snprintf(key, sizeof key, "%s%d", name, which);            \
        *out = (unsigned)script_value(key, fallback);              \
        return OK;                                                 \
    }
CHOICE(nvmlDeviceGetClockInfo, "clock", 1980)
CHOICE(nvmlDeviceGetMaxClockInfo, "max_clock", 1980)
CHOICE(nvmlDeviceGetTemperature, "old_temperature", 41)
CHOICE(nvmlDeviceGetPcieThroughput, "pcie", 1000)

struct temperature { unsigned version, sensor; int value; };

int nvmlDeviceGetTemperatureV(struct device *device, struct temperature *out) {
    FAIL(device);
    WHOLE_ONLY(device);
    if (out->version != 0x100000C) return VERSION_MISMATCH;
    out->value = (int)script_value("temperature", 40);
    return OK;
}

int nvmlDeviceGetEccMode(struct device *device, unsigned *now, unsigned *pending) {
    FAIL(device);
    *now = *pending = 1;
    return OK;
}

int nvmlDeviceGetCudaComputeCapability(struct device *device, int *major, int *minor) {
    FAIL(device);
    *major = 9;
    *minor = 0;
    return OK;
}

int nvmlDeviceGetMemoryInfo(struct device *device, uint64_t out[3]) {
    FAIL(device);
    out[0] = 150754820096ull;
    out[2] = (uint64_t)script_value("memory_v1", 3e9);
    out[1] = out[0] - out[2];
    return OK;
}

struct memory { unsigned version; uint64_t total, reserved, free, used; };

int nvmlDeviceGetMemoryInfo_v2(struct device *device, struct memory *out) {
    FAIL(device);
    if (out->version != 0x2000028) return VERSION_MISMATCH;
    out->total = 150754820096ull;
    out->reserved = 500000000;
    out->used = (uint64_t)script_value("memory", 2e9);
    out->free = out->total - out->used;
    return OK;
}

struct utilisation { unsigned gpu, memory; };

int nvmlDeviceGetUtilizationRates(struct device *device, struct utilisation *out) {
    FAIL(device);
    WHOLE_ONLY(device);
    out->gpu = (unsigned)script_value("util", 50);
    out->memory = (unsigned)script_value("mem_util", 20);
    return OK;
}

int nvmlDeviceGetCurrentClocksEventReasons(struct device *device, uint64_t *out) {
    FAIL(device);
    WHOLE_ONLY(device);
    *out = (uint64_t)script_value("reasons", 0);
    return OK;
}

union value { double d; unsigned u; unsigned long long ull; };

struct field { uint32_t id, scope; int64_t stamp, latency; unsigned type; int result; union value value; };

int nvmlDeviceGetFieldValues(struct device *device, int count, struct field *fields) {
    FAIL(device);
    for (int i = 0; i < count; i++) {
        char key[32];
        fields[i].result = device->instance >= 0 ? NOT_SUPPORTED : script_field(fields[i].id);
        snprintf(key, sizeof key, "field%u", fields[i].id);
        double number = script_value(key, 1000.0 * fields[i].id);
        fields[i].type = 3; /* NVML_VALUE_TYPE_UNSIGNED_LONG_LONG */
        fields[i].value.ull = (unsigned long long)number;
    }
    return OK;
}

struct sample { unsigned long long stamp_us; union value value; };

/* Twenty samples, 20 ms apart, up to now; power in mW and utilisation in %. */
int nvmlDeviceGetSamples(
    struct device *device, int kind, unsigned long long since_us, unsigned *type, unsigned *count,
    struct sample *out) {
    struct timespec now;
    FAIL(device);
    WHOLE_ONLY(device);
    clock_gettime(CLOCK_REALTIME, &now);
    unsigned long long now_us = now.tv_sec * 1000000ull + now.tv_nsec / 1000;
    unsigned long long newest = now_us - now_us % 20000;
    unsigned found = 0;
    *type = 1;
    for (int i = 19; i >= 0; i--) {
        unsigned long long stamp = newest - i * 20000ull;
        if (stamp <= since_us) continue;
        /* On for 200 ms, off for 200 ms. */
        unsigned on = stamp / 200000 % 2;
        if (out && found < *count) {
            out[found].stamp_us = stamp;
            out[found].value.u = kind == 0 ? (on ? 600000 : 100000) : (on ? 100 : 0);
        }
        found++;
    }
    if (!found) return NOT_FOUND;
    if (!out || found < *count) *count = found;
    return OK;
}

struct process { unsigned pid; unsigned long long memory; unsigned instance, compute; };

int nvmlDeviceGetComputeRunningProcesses_v3(struct device *device, unsigned *count, struct process *out) {
    FAIL(device);
    unsigned pid = (unsigned)script_value("tenant", 0);
    if (!pid) { *count = 0; return OK; }
    if (*count < 1) { *count = 1; return INSUFFICIENT_SIZE; }
    *count = 1;
    out[0].pid = pid;
    out[0].memory = 1ull << 30;
    return OK;
}

static int event_set;
int nvmlEventSetCreate(void **set) { FAIL((struct device *)0); *set = &event_set; return OK; }
int nvmlEventSetFree(void *set) { (void)set; return OK; }

int nvmlDeviceRegisterEvents(struct device *device, unsigned long long types, void *set) {
    (void)types; (void)set;
    FAIL(device);
    WHOLE_ONLY(device);
    return OK;
}

struct event { void *device; unsigned long long type, data; unsigned instance, compute; };

int nvmlEventSetWait_v2(void *set, struct event *out, unsigned timeout_ms) {
    (void)set; (void)timeout_ms;
    FAIL((struct device *)0);
    unsigned long long xid = (unsigned long long)script_value("xid", 0);
    if (!xid) return TIMEOUT;
    out->type = 8;
    out->data = xid;
    return OK;
}

struct gpm_sample { double taken; };
static struct gpm_sample gpm_samples[64];
static int gpm_next;

struct gpm_support { unsigned version, supported; };

int nvmlGpmQueryDeviceSupport(struct device *device, struct gpm_support *out) {
    FAIL(device);
    out->supported = (unsigned)script_value("gpm", 1);
    return OK;
}

int nvmlGpmSampleAlloc(struct gpm_sample **out) {
    FAIL((struct device *)0);
    *out = &gpm_samples[gpm_next++ % 64];
    return OK;
}

int nvmlGpmSampleFree(struct gpm_sample *sample) { (void)sample; return OK; }

int nvmlGpmSampleGet(struct device *device, struct gpm_sample *sample) {
    FAIL(device);
    WHOLE_ONLY(device);
    sample->taken = 1;
    return OK;
}

int nvmlGpmMigSampleGet(struct device *device, unsigned instance, struct gpm_sample *sample) {
    (void)instance;
    FAIL(device);
    sample->taken = 1;
    return OK;
}

struct gpm_metric { unsigned id; int result; double value; const char *info[3]; };

struct gpm_request {
    unsigned version, count;
    struct gpm_sample *before, *after;
    struct gpm_metric metrics[];
};

int nvmlGpmMetricsGet(struct gpm_request *out) {
    FAIL((struct device *)0);
    if (out->version != 1 || !out->before->taken || !out->after->taken || out->before == out->after)
        return INVALID_ARGUMENT;
    for (unsigned i = 0; i < out->count; i++) {
        char key[32];
        snprintf(key, sizeof key, "gpm%u", out->metrics[i].id);
        out->metrics[i].value = script_value(key, out->metrics[i].id);
        out->metrics[i].result = out->metrics[i].value < 0 ? NOT_SUPPORTED : OK;
    }
    return OK;
}
