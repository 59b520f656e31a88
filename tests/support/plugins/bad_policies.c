/* Decode balancers that misbehave as the option `mode` says: in create, or in decide once `after`
 * calls went well. */

#define _DEFAULT_SOURCE

#include "schedulers/plugin/policy_abi.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define UNUSED(x) ((void)(x))

typedef struct instance {
  char mode[32];
  int64_t after;
  int64_t calls;
  int64_t sleep_ms;
} instance;

static void text_option(const char* options, const char* key, char* out, size_t size) {
  const char* at = strstr(options, key);
  size_t n = 0;
  if (at == NULL) return;
  at += strlen(key) + 3;
  while (at[n] != '"' && n + 1 < size) {
    out[n] = at[n];
    ++n;
  }
  out[n] = '\0';
}

static int64_t option(const char* options, const char* key) {
  const char* at = strstr(options, key);
  return at == NULL ? 0 : strtoll(at + strlen(key) + 2, NULL, 10);
}

static void sleep_ms(int64_t ms) {
  struct timespec left;
  left.tv_sec = ms / 1000;
  left.tv_nsec = (ms % 1000) * 1000000;
  while (nanosleep(&left, &left) != 0) {
  }
}

/* Until the file exists that TROUPE_TEST_RELEASE names: a test lets go what it left behind. */
static void hang(void) {
  const char* release = getenv("TROUPE_TEST_RELEASE");
  while (release == NULL || access(release, F_OK) != 0)
    sleep_ms(1);
}

static void crash(void) {
  signal(SIGSEGV, SIG_DFL); /* A sanitizer would make an exit code of it. */
  raise(SIGSEGV);
}

/* A process that leaves the group and the parent of this one, as a daemon does. */
static void leave_daemon(void) {
  const pid_t copy = vfork();
  if (copy == 0) {
    execl("/bin/sh", "sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & echo $!", (char*)NULL);
    _exit(1);
  }
  waitpid(copy, NULL, 0);
}

/* Without touching it: the bound counts what may be used. */
static void take_all_memory(void) {
  while (malloc((size_t)64 << 20) != NULL) {
  }
}

/* What changes the process; the instance itself works. */
static void disturb(const char* mode) {
  if (strcmp(mode, "forks") == 0) fork();
  if (strcmp(mode, "forks_and_waits") == 0 && fork() > 0) wait(NULL);
  if (strcmp(mode, "leaves_daemon") == 0) leave_daemon();
  if (strcmp(mode, "leaves_daemon_hangs") == 0) {
    leave_daemon();
    hang();
  }
  if (strcmp(mode, "changes_folder") == 0 && chdir("/") != 0) abort();
  if (strcmp(mode, "changes_umask") == 0) umask(077);
  if (strcmp(mode, "changes_signal") == 0) signal(SIGTERM, SIG_IGN);
  if (strcmp(mode, "takes_memory") == 0) take_all_memory();
}

static void* create(const char* options, size_t n, char* error, size_t error_size) {
  instance* self = calloc(1, sizeof *self);
  UNUSED(n);
  if (self == NULL) return NULL;
  text_option(options, "mode", self->mode, sizeof self->mode);
  self->after = option(options, "after");
  self->sleep_ms = option(options, "sleep_ms");
  disturb(self->mode);
  if (strcmp(self->mode, "create_hangs") == 0) hang();
  if (strcmp(self->mode, "create_crashes") == 0) crash();
  if (strcmp(self->mode, "create_exits") == 0) {
    fprintf(stderr, "nothing works here\n");
    exit(7);
  }
  if (strcmp(self->mode, "create_fails") == 0) {
    snprintf(error, error_size, "mode \"%s\" is not for %d people", self->mode, 3);
    free(self);
    return NULL;
  }
  if (strcmp(self->mode, "create_null") == 0) {
    free(self);
    return NULL;
  }
  return self;
}

static void destroy(void* self) {
  instance* one = self;
  if (strcmp(one->mode, "destroy_hangs") == 0) hang();
  if (strcmp(one->mode, "destroy_crashes") == 0) crash();
  free(self);
}

/* What the mode says; -1000 to answer well. */
static int32_t misbehave(instance* one, troupe_placement_answer* a) {
  if (strcmp(one->mode, "fails") == 0) {
    snprintf(a->message, a->message_size, "no memory");
    return -3;
  }
  if (strcmp(one->mode, "fails_oddly") == 0) {
    snprintf(a->message, a->message_size, "\x1b[31m\xff red");
    return -3;
  }
  if (strcmp(one->mode, "returns_7") == 0) return 7;
  if (strcmp(one->mode, "no_reason") == 0) {
    a->reason = TROUPE_REASON_UNSET;
    return TROUPE_DONE;
  }
  if (strcmp(one->mode, "reason_99") == 0) {
    a->reason = 99;
    return TROUPE_DONE;
  }
  if (strcmp(one->mode, "no_such_rank") == 0) {
    a->rank = 12345;
    return TROUPE_DONE;
  }
  if (strcmp(one->mode, "crashes") == 0) crash();
  if (strcmp(one->mode, "hangs") == 0) hang();
  if (strcmp(one->mode, "exits") == 0) exit(0);
  if (strcmp(one->mode, "sleeps") == 0) sleep_ms(one->sleep_ms);
  return -1000;
}

static int32_t place(void* self, const troupe_balancer_question* q, const troupe_call* call,
                     troupe_placement_answer* a) {
  instance* one = self;
  size_t i;
  UNUSED(call);
  a->reason = TROUPE_REASON_ONLY_CHOICE;
  a->retry_at_us = one->calls;
  if (one->calls++ >= one->after) {
    const int32_t returned = misbehave(one, a);
    if (returned != -1000) return returned;
  }
  for (i = 0; i < q->ranks.n; ++i) {
    const troupe_rank_view* rank = troupe_rank_at(&q->ranks, i);
    if (!troupe_has_room(q->request, rank)) continue;
    a->rank = rank->rank;
    a->scores[i] = one->calls;
    a->scored = 1;
    return TROUPE_DONE;
  }
  a->reason = TROUPE_REASON_NO_ROOM;
  return TROUPE_NONE;
}

static size_t export_state(void* self, uint8_t* out, size_t cap) {
  const instance* one = self;
  if (strcmp(one->mode, "state_is_endless") == 0) return TROUPE_STATE_MAX + 1;
  if (cap >= sizeof one->calls) memcpy(out, &one->calls, sizeof one->calls);
  return sizeof one->calls;
}

static int32_t import_state(void* self, const uint8_t* in, size_t len) {
  instance* one = self;
  if (len != sizeof one->calls) return 1;
  memcpy(&one->calls, in, len);
  return 0;
}

static const troupe_decode_balancer table = {sizeof(troupe_decode_balancer), 0, place};

static const troupe_policy policies[] = {
    {sizeof(troupe_policy), 0, "decode_balancer", "bad",
     "{\"type\": \"object\", \"properties\": {"
     "\"mode\": {\"type\": \"string\", \"default\": \"good\"}, "
     "\"after\": {\"type\": \"integer\", \"default\": 0, \"minimum\": 0}, "
     "\"sleep_ms\": {\"type\": \"integer\", \"default\": 0, \"minimum\": 0}}}",
     create, destroy, export_state, import_state, &table},
    {sizeof(troupe_policy), 0, "decode_balancer", "bad_schema",
     "{\"type\": \"object\", \"properties\": {\"mode\": {\"type\": \"text\"}}}", create, destroy,
     NULL, NULL, &table},
};

static const troupe_plugin plugin = {
    sizeof(troupe_plugin), TROUPE_ABI_MAJOR, TROUPE_ABI_MINOR, 2, "bad", "1.0", policies};

const troupe_plugin* troupe_plugin_entry(uint32_t host_abi_major) {
  return host_abi_major == TROUPE_ABI_MAJOR ? &plugin : NULL;
}
