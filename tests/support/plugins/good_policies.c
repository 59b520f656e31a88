/* A library with one small policy of each kind. Built twice: version 1 places on the first rank
 * with room, version 2 on the last one, so that a test sees which build answers. */

#include "schedulers/plugin/policy_abi.h"

#include <stdlib.h>
#include <string.h>

#ifndef GOOD_VERSION
#define GOOD_VERSION 1
#endif
#define TEXT_OF_2(x) #x
#define TEXT_OF(x) TEXT_OF_2(x)

#define UNUSED(x) ((void)(x))

/* The whole number behind "key": in a JSON object that the host wrote. */
static int64_t option(const char* options, const char* key, int64_t fallback) {
  const char* at = strstr(options, key);
  return at == NULL ? fallback : strtoll(at + strlen(key) + 2, NULL, 10);
}

typedef struct instance {
  int64_t option;
  int64_t count; /* The state. */
} instance;

static void* create(const char* options, size_t n, char* error, size_t error_size) {
  instance* self = calloc(1, sizeof *self);
  UNUSED(n);
  UNUSED(error);
  UNUSED(error_size);
  if (self != NULL) self->option = option(options, "alpha", 0);
  return self;
}

static void destroy(void* self) { free(self); }

static size_t export_state(void* self, uint8_t* out, size_t cap) {
  const instance* one = self;
  if (cap >= sizeof one->count) memcpy(out, &one->count, sizeof one->count);
  return sizeof one->count;
}

static int32_t import_state(void* self, const uint8_t* in, size_t len) {
  instance* one = self;
  if (len != sizeof one->count) return 1;
  memcpy(&one->count, in, len);
  return 0;
}

/* Latest arrival first; in the order of the question when alpha is 1. */
static int32_t order(void* self, const troupe_queue_question* q, const troupe_call* call,
                     troupe_queue_answer* a) {
  const instance* one = self;
  size_t i;
  UNUSED(call);
  for (i = 0; i < q->waiting.n; ++i)
    a->positions[i] = (uint32_t)(one->option == 1 ? i : q->waiting.n - 1 - i);
  a->reason = TROUPE_REASON_IN_ORDER;
  return TROUPE_DONE;
}

static void observe(void* self, const troupe_request_view* request, size_t request_size,
                    uint32_t event, const troupe_call* call) {
  instance* one = self;
  UNUSED(call);
  if (!TROUPE_HAS(request_size, troupe_request_view, preemptions)) return;
  if (event == TROUPE_QUEUE_SERVED) one->count += request->prompt;
  if (event == TROUPE_QUEUE_RETURNED) one->count -= request->prompt;
}

static int32_t pick(const troupe_request_view* request, const troupe_array* ranks,
                    troupe_placement_answer* a) {
  size_t i, chosen = ranks->n;
  for (i = 0; i < ranks->n; ++i) {
    const troupe_rank_view* rank = troupe_rank_at(ranks, i);
    if (a->scores != NULL) a->scores[i] = rank->running;
    if (troupe_has_room(request, rank) && (GOOD_VERSION == 2 || chosen == ranks->n)) chosen = i;
  }
  a->scored = a->scores != NULL;
  a->reason = TROUPE_REASON_NO_ROOM;
  if (chosen == ranks->n) return TROUPE_NONE;
  a->rank = troupe_rank_at(ranks, chosen)->rank;
  a->reason = TROUPE_REASON_LOWEST_SCORE;
  return TROUPE_DONE;
}

static int32_t route(void* self, const troupe_router_question* q, const troupe_call* call,
                     troupe_placement_answer* a) {
  UNUSED(self);
  UNUSED(call);
  return pick(q->request, &q->ranks, a);
}

/* In turn, over those with room; `count` is the next turn. */
static int32_t place(void* self, const troupe_balancer_question* q, const troupe_call* call,
                     troupe_placement_answer* a) {
  instance* one = self;
  size_t i;
  UNUSED(call);
  for (i = 0; i < q->ranks.n; ++i) {
    const size_t at = ((size_t)one->count + i) % q->ranks.n;
    const troupe_rank_view* rank = troupe_rank_at(&q->ranks, at);
    if (!troupe_has_room(q->request, rank)) continue;
    a->rank = rank->rank;
    a->reason = TROUPE_REASON_NEXT_IN_TURN;
    one->count = (int64_t)at + 1;
    return TROUPE_DONE;
  }
  a->reason = TROUPE_REASON_NO_ROOM;
  return TROUPE_NONE;
}

static int32_t first(void* self, const troupe_balancer_question* q, const troupe_call* call,
                     troupe_placement_answer* a) {
  UNUSED(self);
  UNUSED(call);
  return pick(q->request, &q->ranks, a);
}

static int32_t drawn(void* self, const troupe_router_question* q, const troupe_call* call,
                     troupe_placement_answer* a) {
  size_t i, passed = 0, n;
  UNUSED(self);
  for (i = 0; i < q->ranks.n; ++i)
    passed += troupe_has_room(q->request, troupe_rank_at(&q->ranks, i)) ? 1 : 0;
  a->reason = TROUPE_REASON_NO_ROOM;
  if (passed == 0) return TROUPE_NONE;
  n = passed == 1 ? 0 : (size_t)troupe_below(call, passed);
  for (i = 0; i < q->ranks.n; ++i) {
    const troupe_rank_view* rank = troupe_rank_at(&q->ranks, i);
    if (!troupe_has_room(q->request, rank) || n-- > 0) continue;
    a->rank = rank->rank;
    break;
  }
  a->reason = passed == 1 ? TROUPE_REASON_ONLY_CHOICE : TROUPE_REASON_DRAWN;
  return TROUPE_DONE;
}

/* The next request's tokens, as many as the budget of a step takes. */
static int32_t pack(void* self, const troupe_chunker_question* q, const troupe_call* call,
                    troupe_chunker_answer* a) {
  const troupe_request_view* next = troupe_request_at(&q->requests, 0);
  int64_t tokens = troupe_remaining(next);
  const int64_t budget = call->step_budget_ps - call->cost_model->step_ps;
  const int64_t most = call->host->largest_chunk(call->cost_model, budget, next->done);
  UNUSED(self);
  if (tokens > most) tokens = most;
  if (tokens > q->step_tokens_max) tokens = q->step_tokens_max;
  if (tokens < 1) tokens = 1;
  a->shares[0].candidate = 0;
  a->shares[0].tokens = tokens;
  a->n = 1;
  a->reason = TROUPE_REASON_BUDGET_REACHED;
  return TROUPE_DONE;
}

static int64_t step_budget_ps(void* self, const troupe_cost_model* model, size_t model_size,
                              const troupe_host* host, int64_t step_tokens_max) {
  UNUSED(self);
  UNUSED(model_size);
  return model->step_ps + host->marginal_ps(model, step_tokens_max, 0) / 2;
}

static int32_t admit(void* self, const troupe_admission_question* q, const troupe_call* call,
                     troupe_admission_answer* a) {
  const instance* one = self;
  UNUSED(call);
  a->admission = one->option > 0 && q->load->waiting >= one->option ? TROUPE_REJECT : TROUPE_ADMIT;
  a->reason = TROUPE_REASON_ADMITTED;
  return TROUPE_DONE;
}

/* At most two transfers at a time. */
static int32_t hand_over(void* self, const troupe_handoff_question* q, const troupe_call* call,
                         troupe_handoff_answer* a) {
  UNUSED(self);
  a->mode = TROUPE_HANDOFF_WHOLE;
  a->reason = TROUPE_REASON_WITHIN_BUDGET;
  if (q->transfers < 2) return TROUPE_DONE;
  a->reason = TROUPE_REASON_HELD_BACK;
  a->retry_at_us = call->now_us + 1000;
  return TROUPE_NONE;
}

/* Sequences first, then slices while there are tokens. */
static int32_t compose(void* self, const troupe_step_question* q, const troupe_call* call,
                       troupe_step_answer* a) {
  int64_t left = q->step_tokens_max;
  size_t i;
  UNUSED(self);
  UNUSED(call);
  for (i = 0; i < q->decodes.n && left > 0; ++i, --left)
    a->decodes[a->n_decodes++] = (uint32_t)i;
  for (i = 0; i < q->slices.n && left > 0; ++i) {
    const troupe_slice_view* slice = troupe_slice_at(&q->slices, i);
    const int64_t tokens = slice->count < left ? slice->count : left;
    a->slices[a->n_slices].candidate = (uint32_t)i;
    a->slices[a->n_slices++].tokens = tokens;
    left -= tokens;
  }
  a->reason = TROUPE_REASON_WITHIN_BUDGET;
  return TROUPE_DONE;
}

/* One step ahead when its blocks are free. */
static int32_t ahead(void* self, const troupe_overlap_question* q, const troupe_call* call,
                     troupe_overlap_answer* a) {
  UNUSED(self);
  UNUSED(call);
  a->plan_now = q->view->plans_held == 0 ||
                (q->view->plans_held == 1 && q->view->blocks_most <= q->view->blocks_free);
  a->reason = TROUPE_REASON_IN_ORDER;
  return TROUPE_DONE;
}

#define ALPHA                                                                                      \
  "{\"type\": \"object\", \"properties\": {\"alpha\": {\"type\": \"integer\", \"default\": 3, "    \
  "\"minimum\": 0, \"maximum\": 10, \"description\": \"Changes what is preferred.\", "             \
  "\"x-hot\": true}}}"

static const troupe_queue queue_table = {sizeof(troupe_queue), 0, order, observe};
static const troupe_prefill_router router_table = {sizeof(troupe_prefill_router), 0, route};
static const troupe_prefill_router drawn_table = {sizeof(troupe_prefill_router), 0, drawn};
static const troupe_decode_balancer turns_table = {sizeof(troupe_decode_balancer), 0, place};
static const troupe_decode_balancer first_table = {sizeof(troupe_decode_balancer), 0, first};
static const troupe_prefill_chunker chunker_table = {sizeof(troupe_prefill_chunker), 0, pack,
                                                     step_budget_ps};
static const troupe_admission admission_table = {sizeof(troupe_admission), 0, admit};
static const troupe_handoff handoff_table = {sizeof(troupe_handoff), 0, hand_over};
static const troupe_step step_table = {sizeof(troupe_step), 0, compose};
static const troupe_overlap overlap_table = {sizeof(troupe_overlap), 0, ahead};

#define ROW(kind, name, schema, out, in, table)                                                    \
  { sizeof(troupe_policy), 0, kind, name, schema, create, destroy, out, in, &table }

static const troupe_policy policies[] = {
    ROW("queue", "newest", ALPHA, export_state, import_state, queue_table),
    ROW("prefill_router", "first_fit", NULL, NULL, NULL, router_table),
    ROW("prefill_router", "any_fit", NULL, NULL, NULL, drawn_table),
    ROW("decode_balancer", "turns", NULL, export_state, import_state, turns_table),
    ROW("decode_balancer", "first_fit", NULL, NULL, NULL, first_table),
    ROW("prefill_chunker", "one", NULL, NULL, NULL, chunker_table),
    ROW("admission", "shorter_than", ALPHA, NULL, NULL, admission_table),
    ROW("handoff", "two", NULL, NULL, NULL, handoff_table),
    ROW("step", "sequences_first", NULL, NULL, NULL, step_table),
    ROW("overlap", "one_more", NULL, NULL, NULL, overlap_table),
};

static const troupe_plugin plugin = {sizeof(troupe_plugin),
                                     TROUPE_ABI_MAJOR,
                                     TROUPE_ABI_MINOR,
                                     sizeof policies / sizeof policies[0],
                                     "good",
                                     TEXT_OF(GOOD_VERSION) ".0",
                                     policies};

const troupe_plugin* troupe_plugin_entry(uint32_t host_abi_major) {
  return host_abi_major == TROUPE_ABI_MAJOR ? &plugin : NULL;
}
