#include "script.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_RULES 64
#define MAX_VALUES 64

struct rule {
    char function[64];
    int code, from, until, calls;
};

struct values {
    char name[32];
    double list[MAX_VALUES];
    int count, next;
};

static struct card cards[MAX_CARDS];
static struct rule rules[MAX_RULES];
static struct { int id, code; } fields[MAX_RULES];
static struct values values[MAX_RULES];
static int rule_count, field_count, value_count, loaded;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void broken(const char *line) {
    fprintf(stderr, "nvml stand-in: cannot read its script at: %s\n", line);
    abort();
}

static void load_values(char *rest, const char *line) {
    struct values *v = &values[value_count++];
    char *word = strtok(rest, " \n");
    if (!word) broken(line);
    snprintf(v->name, sizeof v->name, "%s", word);
    while ((word = strtok(NULL, " \n")) && v->count < MAX_VALUES) v->list[v->count++] = atof(word);
    if (!v->count) broken(line);
}

static void load_line(char *line) {
    char kind[16], name[96];
    int a, b, used = 0;
    if (line[0] == '\n' || line[0] == '#') return;
    if (sscanf(line, "%15s %n", kind, &used) != 1) broken(line);
    char *rest = line + used;
    if (!strcmp(kind, "card")) {
        if (sscanf(rest, "%d %95s %d", &a, name, &b) != 3 || a < 0 || a >= MAX_CARDS) broken(line);
        cards[a].known = 1;
        cards[a].index = a;
        cards[a].mig = b;
        snprintf(cards[a].uuid, sizeof cards[a].uuid, "%s", name);
    } else if (!strcmp(kind, "fail")) {
        struct rule *r = &rules[rule_count++];
        r->from = 0;
        r->until = NEVER;
        if (sscanf(rest, "%63s %d %d %d", r->function, &r->code, &r->from, &r->until) < 2) broken(line);
    } else if (!strcmp(kind, "field")) {
        if (sscanf(rest, "%d %d", &a, &b) != 2) broken(line);
        fields[field_count].id = a;
        fields[field_count++].code = b;
    } else if (!strcmp(kind, "value")) {
        load_values(rest, line);
    } else {
        broken(line);
    }
}

void script_load(void) {
    pthread_mutex_lock(&lock);
    if (!loaded) {
        char line[1024];
        const char *path = getenv("NVML_STANDIN");
        FILE *file = path ? fopen(path, "r") : NULL;
        if (!file) broken(path ? path : "(NVML_STANDIN is not set)");
        while (fgets(line, sizeof line, file)) load_line(line);
        fclose(file);
        loaded = 1;
    }
    pthread_mutex_unlock(&lock);
}

struct card *script_card(int index) {
    return index >= 0 && index < MAX_CARDS && cards[index].known ? &cards[index] : NULL;
}

int script_cards(void) {
    int count = 0;
    while (count < MAX_CARDS && cards[count].known) count++;
    return count;
}

int script_result(const char *function, int index) {
    char card[16];
    int result = 0;
    snprintf(card, sizeof card, "card:%d", index);
    pthread_mutex_lock(&lock);
    for (int i = 0; i < rule_count; i++) {
        struct rule *r = &rules[i];
        if (strcmp(r->function, function) && strcmp(r->function, card)) continue;
        int call = r->calls++;
        if (call >= r->from && call < r->until && !result) result = r->code;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

int script_field(int id) {
    for (int i = 0; i < field_count; i++)
        if (fields[i].id == id) return fields[i].code;
    return 0;
}

double script_value(const char *name, double fallback) {
    double found = fallback;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < value_count; i++)
        if (!strcmp(values[i].name, name)) {
            found = values[i].list[values[i].next];
            values[i].next = (values[i].next + 1) % values[i].count;
        }
    pthread_mutex_unlock(&lock);
    return found;
}
