/* The C ABI of loadable policies: the only header that a plugin includes. C99 and C++17.
 *
 * A library exports troupe_plugin_entry, which hands out static tables of functions. The host
 * creates instances from them and asks each one what a built-in policy of its kind would be asked.
 *
 * Lifetime of pointers, unless a line says otherwise:
 *   tables      static data of the library; the host reads them while the library is loaded
 *   self        made by create, owned by the host, given back once to destroy
 *   questions   owned by the host, read-only, valid until the call returns
 *   answers     owned by the host, to be filled, valid until the call returns
 *   strings     UTF-8 with a terminating zero
 *
 * Threads: calls of one instance never overlap and follow each other in order, but not always on
 * the same thread. Instances share nothing unless the library makes them. A library owns no thread
 * after destroy, starts no process, changes nothing of the one it is in (working directory, umask,
 * signals), keeps no pointer of a call, does no I/O, never blocks, and lets no exception out.
 *
 * Versions: the major number changes when something here changes its meaning or place; a host takes
 * no other one. Fields are added at the end only, with a higher minor number. Structs carry
 * their size and arrays their stride, both as the one who made them knows them; a reader that
 * knows more asks TROUPE_HAS(size, type, field) before it reads a field of a later minor number.
 * A host reads no fields of a table that are beyond the table's struct_size, and takes them as 0.
 *
 * Numbers: integers decide. A policy that computes in floating point rounds to nearest and clamps
 * to the int64 range before it answers, as troupe_score() does; INT64_MIN and INT64_MAX are scores
 * like any other. Ties break by the lower id. Same options, state, questions and draws: same
 * answers.
 */

#ifndef TROUPE_POLICY_ABI_H
#define TROUPE_POLICY_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TROUPE_ABI_MAJOR 1u
#define TROUPE_ABI_MINOR 0u

#define TROUPE_PLUGIN_EXPORT __attribute__((visibility("default")))

/* Whether a struct of `size` bytes, as its maker knows it, has the field. */
#define TROUPE_HAS(size, type, field)                                                              \
  ((size_t)(size) >= offsetof(type, field) + sizeof(((type*)0)->field))

/* -- Numbers that are spoken on both sides; stable, added to at the end -- */

/* What decide returns. Any other number below 0 is a failure too and is reported as it is. */
#define TROUPE_DONE 0    /* The answer holds a choice and a reason. */
#define TROUPE_NONE 1    /* No choice; the answer holds the reason, and retry_at_us if it helps. */
#define TROUPE_FAILED -1 /* Nothing of the answer counts; the kind's default decides. */

/* Why a policy decided so: every answer carries one, also TROUPE_NONE. */
enum {
  TROUPE_REASON_UNSET = 0,             /* No answer: a decision without a reason is invalid. */
  TROUPE_REASON_ONLY_CHOICE = 1,       /* One candidate was left. */
  TROUPE_REASON_LOWEST_SCORE = 2,      /* Best score of several. */
  TROUPE_REASON_TIE_LOWEST_ID = 3,     /* Equal scores; the lower id wins. */
  TROUPE_REASON_NEXT_IN_TURN = 4,      /* Round robin. */
  TROUPE_REASON_DRAWN = 5,             /* A draw of the seeded generator. */
  TROUPE_REASON_BETTER_OF_TWO = 6,     /* The better of two that were drawn. */
  TROUPE_REASON_BY_SESSION = 7,        /* Where the requests of its session go. */
  TROUPE_REASON_CACHED_THERE = 8,      /* The rank holds part of the prompt already. */
  TROUPE_REASON_HELD_BACK = 9,         /* It waits for a better moment; see retry_at_us. */
  TROUPE_REASON_IN_PLACE = 10,         /* The rank that holds the KV decodes too. */
  TROUPE_REASON_ADMITTED = 11,         /* Nothing speaks against it. */
  TROUPE_REASON_MEETS_DEADLINE = 12,   /* The estimate is inside the deadline. */
  TROUPE_REASON_MISSES_DEADLINE = 13,  /* The estimate is beyond the deadline. */
  TROUPE_REASON_NO_TARGET = 14,        /* There is no deadline to miss. */
  TROUPE_REASON_WITHIN_BUDGET = 15,    /* All of it fits the budget. */
  TROUPE_REASON_BUDGET_REACHED = 16,   /* Cut where the budget ends. */
  TROUPE_REASON_BUDGET_TOO_SMALL = 17, /* Not even one token fits. */
  TROUPE_REASON_NOTHING_TO_DO = 18,    /* No candidate work. */
  TROUPE_REASON_NO_ROOM = 19,          /* Every rank lacks blocks or slots. */
  TROUPE_REASON_NO_RANK = 20,          /* There is no rank of the role. */
  TROUPE_REASON_IN_ORDER = 21,         /* Queue order as the policy defines it. */
  TROUPE_REASON_OUTGREW_RANK = 22,     /* One request needs more than the whole rank. */
  TROUPE_REASON_FAIR_SHARE = 23,       /* The tenant that had least so far. */
  TROUPE_REASON_WAITED_LONGEST = 24,   /* Somebody waited as long as the bound allows. */
  TROUPE_REASON_NOT_WORTH_IT = 25,     /* It would cost more than it brings. */
  TROUPE_REASON_REPLACED_INVALID = 26  /* The host's own: a policy may not give it. */
};

/* Role of a rank. */
enum { TROUPE_ROLE_PREFILL = 0, TROUPE_ROLE_DECODE = 1, TROUPE_ROLE_BOTH = 2 };

/* How much room placement reserves for a request on a rank that decodes. */
enum {
  TROUPE_RESERVE_WORST = 0,    /* Prompt and new tokens at most. */
  TROUPE_RESERVE_EXPECTED = 1, /* Prompt and the expected answer; it may be preempted. */
  TROUPE_RESERVE_SHIELDED = 2  /* The worst case or a whole rank; never preempted. */
};

/* What happened to a request that waits for a rank. */
enum {
  TROUPE_QUEUE_ENTERED = 0,  /* It waits from now on. */
  TROUPE_QUEUE_SERVED = 1,   /* It was given a rank. */
  TROUPE_QUEUE_RETURNED = 2, /* That rank did not take it: it waits again, `served` is undone. */
  TROUPE_QUEUE_LEFT = 3      /* It waits no longer and was not served. */
};

enum { TROUPE_ADMIT = 0, TROUPE_REJECT = 1 };

enum { TROUPE_HANDOFF_WHOLE = 0 };

/* -- Views: the very structs that the built-in policies see -- */

/* Time of work in integer picoseconds; all >= 0. */
typedef struct troupe_cost_model {
  int64_t step_ps;  /* Fixed part of a step. */
  int64_t token_ps; /* Per new token. */
  int64_t pair_ps;  /* Per (new token, visible token) pair. */
  int64_t image_patch_ps;
  int64_t sequence_ps;      /* Decode: per sequence in the step. */
  int64_t context_token_ps; /* Decode: per token of context. */
} troupe_cost_model;

/* One request. All lengths in tokens. */
typedef struct troupe_request_view {
  uint64_t request;
  uint32_t attempt;
  uint32_t unused_0;
  uint64_t session_hash; /* Equal for requests of one conversation; 0 = unknown. */
  uint64_t tenant_hash;  /* Equal for requests of one tenant. */
  int64_t priority;      /* Higher is more urgent, where a policy looks at it. */
  int64_t arrival_us;
  int64_t deadline_us; /* 0 = none. */
  int64_t prompt;
  int64_t answered; /* Output tokens of earlier attempts: prefilled with the prompt. */
  int64_t done;     /* Of prompt + answered, computed already. */
  int64_t new_tokens_max;
  int64_t work_ps;     /* Marginal cost of what is left to prefill. */
  uint8_t reservation; /* TROUPE_RESERVE_* */
  uint8_t unused_1[7];
  int64_t expected_p50; /* Tokens of the whole answer, half are shorter; 0 = not known. */
  int64_t expected_p90; /* What `expected` reserves: a higher quantile; 0 = not known. */
  int64_t preemptions;  /* So far. */
} troupe_request_view;

/* One rank's snapshot. Free counts have what this stage promised since then subtracted; running,
 * context_tokens and work_ps have it added. */
typedef struct troupe_rank_view {
  uint32_t rank;
  uint32_t incarnation;
  uint8_t role;     /* TROUPE_ROLE_* */
  uint8_t draining; /* 1: takes nothing new. */
  uint8_t held;     /* 1: kept for an earlier request that waits for its resources. */
  uint8_t unused_0[5];
  int64_t block_tokens;
  int64_t context_max; /* 0 = no limit known. */
  int64_t kv_blocks_free;
  int64_t kv_blocks_total;
  int64_t slots_free;
  int64_t slots_total;
  int64_t running;         /* Sequences that decode or will soon. */
  int64_t context_tokens;  /* Of those. */
  int64_t queued;          /* Requests routed here whose prefill is not complete. */
  int64_t queued_tokens;   /* Of those, prompts with what is cached of them. */
  int64_t uncached_tokens; /* Of those, tokens still to compute. */
  int64_t work_ps;         /* Estimate of the work ahead of a new request. */
  int64_t as_of_us;        /* When the snapshot was received. */
} troupe_rank_view;

/* The whole prefill side, as admission sees it; ranks = 0: nothing is known yet. */
typedef struct troupe_load_view {
  int64_t waiting;
  int64_t waiting_tokens; /* Not yet routed. */
  int64_t least_work_ps;  /* Of the least loaded rank. */
  int64_t ranks;
  int64_t as_of_us;
} troupe_load_view;

/* A slice on offer for a step. */
typedef struct troupe_slice_view {
  uint64_t request;
  uint32_t attempt;
  uint32_t unused_0;
  int64_t first; /* Tokens before it. */
  int64_t count; /* >= 1. */
} troupe_slice_view;

/* A sequence that wants one more token. */
typedef struct troupe_decode_view {
  uint64_t request;
  uint32_t attempt;
  uint32_t unused_0;
  int64_t positions; /* Tokens it holds. */
} troupe_decode_view;

/* A rank at a moment when it could plan a step. */
typedef struct troupe_overlap_view {
  int64_t device_ps;       /* Expected time of the step on the device. */
  int64_t host_ps;         /* Scheduling, preparing and post-processing of one step. */
  int64_t plans_held;      /* Submitted and not finished: the running one included. */
  int64_t sequences;       /* That would run in the next step. */
  int64_t constrained;     /* Of those, with a grammar whose mask needs the tokens to come. */
  int64_t arrivals;        /* Of those, adopted since the last step. */
  int64_t drafts;          /* Most drafts of one sequence in one step. */
  int64_t blocks_most;     /* kv blocks that the step needs if every sequence grows most. */
  int64_t blocks_free;     /* Free, without those that wait for the running step to retire. */
  int64_t blocks_retiring; /* Free once the running step has retired. */
} troupe_overlap_view;

/* n structs, `stride` bytes apart: data is NULL when n is 0. Read it with the accessors below. */
typedef struct troupe_array {
  const void* data;
  size_t n;
  size_t stride; /* Size of one struct as the host knows it. */
} troupe_array;

static inline const void* troupe_at(const troupe_array* array, size_t i) {
  const char* begin = (const char*)array->data;
  return begin + i * array->stride;
}
/* @pre i < array->n, in each of these */
static inline const troupe_request_view* troupe_request_at(const troupe_array* array, size_t i) {
  return (const troupe_request_view*)troupe_at(array, i);
}
static inline const troupe_rank_view* troupe_rank_at(const troupe_array* array, size_t i) {
  return (const troupe_rank_view*)troupe_at(array, i);
}
static inline const troupe_slice_view* troupe_slice_at(const troupe_array* array, size_t i) {
  return (const troupe_slice_view*)troupe_at(array, i);
}
static inline const troupe_decode_view* troupe_decode_at(const troupe_array* array, size_t i) {
  return (const troupe_decode_view*)troupe_at(array, i);
}

/* -- What every call brings along -- */

/* The host's own arithmetic, exact and saturating. Static data of the host: it may be kept. */
typedef struct troupe_host {
  uint32_t struct_size;
  uint32_t abi_minor; /* Of the host. */
  /* A chunk of n tokens after c, without the fixed part of a step. */
  int64_t (*marginal_ps)(const troupe_cost_model* model, int64_t n, int64_t c);
  /* Decode: sequences in the step and their tokens of context. */
  int64_t (*decode_load_ps)(const troupe_cost_model* model, int64_t sequences,
                            int64_t context_tokens);
  /* Largest n >= 0 with marginal_ps(n, c) <= budget_ps; INT64_MAX when tokens cost nothing. */
  int64_t (*largest_chunk)(const troupe_cost_model* model, int64_t budget_ps, int64_t c);
} troupe_host;

typedef struct troupe_call {
  uint32_t struct_size;
  uint32_t unused_0;
  int64_t now_us; /* The only clock. */
  uint64_t policy_epoch;
  int64_t step_budget_ps; /* What one step of a prefill rank may take; 0 = none. */
  int64_t block_tokens;
  const troupe_cost_model* cost_model; /* Never NULL. */
  size_t cost_model_size;              /* Bytes of *cost_model as the host knows it. */
  const troupe_host* host;             /* Never NULL. */
  uint64_t (*rng_next)(void* rng);     /* 64 random bits: the only randomness. */
  void* rng;
} troupe_call;

/* -- Kinds. Each one has a question, an answer and a table of functions.
 *
 * In every answer: struct_size is set by the host, `reason` is to be set by the policy. With
 * TROUPE_FAILED, `message` may say why: at most message_size bytes with the terminating zero, in
 * the host's buffer; it is shown to people. Nothing else of the answer counts then.
 *
 * In every table: struct_size is set by the library; decide may not be NULL. -- */

/* Stable kind "queue": who goes first of those that wait for a rank, or share a step. */

typedef struct troupe_queue_question {
  uint32_t struct_size;
  uint32_t unused_0;
  troupe_array waiting; /* troupe_request_view [n], n >= 1, ascending by (request, attempt). */
} troupe_queue_question;

typedef struct troupe_queue_answer {
  uint32_t struct_size;
  uint32_t reason;
  uint32_t* positions; /* [n] to fill: a permutation of 0 .. n-1, next one first. */
  char* message;
  size_t message_size;
} troupe_queue_answer;

typedef struct troupe_queue {
  uint32_t struct_size;
  uint32_t unused_0;
  /* Always answers: TROUPE_NONE is invalid. */
  int32_t (*decide)(void* self, const troupe_queue_question* question, const troupe_call* call,
                    troupe_queue_answer* answer);
  /* Told of each request that waits for a rank, in order with the questions; may be NULL.
   * event: TROUPE_QUEUE_*; request_size: bytes of *request as the host knows it. */
  void (*observe)(void* self, const troupe_request_view* request, size_t request_size,
                  uint32_t event, const troupe_call* call);
} troupe_queue;

/* Stable kind "prefill_router": the rank that prefills a request, once, before its first chunk. */

typedef struct troupe_router_question {
  uint32_t struct_size;
  uint32_t unused_0;
  const troupe_request_view* request; /* Never NULL. */
  size_t request_size;                /* Bytes of *request as the host knows it. */
  troupe_array ranks; /* troupe_rank_view [n], n >= 1, ascending by rank, prefill ranks only. */
  /* [n] prompt tokens whose KV the rank at that place holds already; NULL = none anywhere. */
  const int64_t* local_hit_tokens;
} troupe_router_question;

/* Of router and balancer. */
typedef struct troupe_placement_answer {
  uint32_t struct_size;
  uint32_t reason;
  uint32_t rank;   /* To set: `rank` of one with troupe_has_room(); not its place in the array. */
  uint32_t scored; /* To set to 1 when all scores are filled; 0 otherwise. */
  /* [n] one score per rank of the question, lower is better: for the ledger. May be NULL. */
  int64_t* scores;
  /* With TROUPE_NONE: when asking again makes sense; 0 = any event. Events and swaps ask before
   * that, and a second from now is the latest; a time that is past is one of the host's choice. */
  int64_t retry_at_us;
  char* message;
  size_t message_size;
} troupe_placement_answer;

typedef struct troupe_prefill_router {
  uint32_t struct_size;
  uint32_t unused_0;
  int32_t (*decide)(void* self, const troupe_router_question* question, const troupe_call* call,
                    troupe_placement_answer* answer);
} troupe_prefill_router;

/* Stable kind "decode_balancer": the rank that holds a request's KV until it ends. */

typedef struct troupe_balancer_question {
  uint32_t struct_size;
  uint32_t source_rank; /* Rank that holds the KV now. */
  uint32_t source_incarnation;
  uint32_t unused_0;
  const troupe_request_view* request; /* Never NULL. */
  size_t request_size;                /* Bytes of *request as the host knows it. */
  troupe_array ranks; /* troupe_rank_view [n], n >= 1, ascending by rank, decoding ranks only. */
} troupe_balancer_question;

typedef struct troupe_decode_balancer {
  uint32_t struct_size;
  uint32_t unused_0;
  int32_t (*decide)(void* self, const troupe_balancer_question* question, const troupe_call* call,
                    troupe_placement_answer* answer);
} troupe_decode_balancer;

/* Stable kind "prefill_chunker": the slices of one rank's next step. */

/* Tokens of one candidate in a step. */
typedef struct troupe_share {
  uint32_t candidate; /* Its place in the question's array. */
  uint32_t unused_0;
  int64_t tokens; /* >= 1. */
} troupe_share;

typedef struct troupe_chunker_question {
  uint32_t struct_size;
  uint32_t rank;
  uint32_t incarnation;
  uint32_t unused_0;
  int64_t step_tokens_max; /* Of one engine step, >= 1. */
  troupe_array requests;   /* troupe_request_view [n], n >= 1, routed to this rank, next first. */
} troupe_chunker_question;

typedef struct troupe_chunker_answer {
  uint32_t struct_size;
  uint32_t reason;
  /* [n of the question] to fill from the front: distinct candidates, 1 <= tokens <=
   * troupe_remaining(), the sum <= step_tokens_max. */
  troupe_share* shares;
  size_t n;            /* To set: shares filled, >= 1 with TROUPE_DONE. */
  int64_t retry_at_us; /* With TROUPE_NONE: when to ask again, as in a placement's answer. */
  char* message;
  size_t message_size;
} troupe_chunker_answer;

typedef struct troupe_prefill_chunker {
  uint32_t struct_size;
  uint32_t unused_0;
  int32_t (*decide)(void* self, const troupe_chunker_question* question, const troupe_call* call,
                    troupe_chunker_answer* answer);
  /* What one full step takes at most, fixed part included, >= 0: what queue estimates divide by.
   * It may depend on the options and the arguments only: the host keeps it. NULL: the time of
   * step_tokens_max tokens without context. */
  int64_t (*step_budget_ps)(void* self, const troupe_cost_model* model, size_t model_size,
                            const troupe_host* host, int64_t step_tokens_max);
} troupe_prefill_chunker;

/* EXPERIMENTAL kind "admission": whether a request enters the system at all. */

typedef struct troupe_admission_question {
  uint32_t struct_size;
  uint32_t unused_0;
  const troupe_request_view* request; /* Never NULL. */
  size_t request_size;                /* Bytes of *request as the host knows it. */
  const troupe_load_view* load;       /* Never NULL. */
  size_t load_size;                   /* Bytes of *load as the host knows it. */
} troupe_admission_question;

typedef struct troupe_admission_answer {
  uint32_t struct_size;
  uint32_t reason;
  uint32_t admission; /* To set: TROUPE_ADMIT or TROUPE_REJECT. */
  uint32_t unused_0;
  char* message;
  size_t message_size;
} troupe_admission_answer;

typedef struct troupe_admission {
  uint32_t struct_size;
  uint32_t unused_0;
  /* Always answers: TROUPE_NONE is invalid. */
  int32_t (*decide)(void* self, const troupe_admission_question* question, const troupe_call* call,
                    troupe_admission_answer* answer);
} troupe_admission;

/* EXPERIMENTAL kind "handoff": when a finished prefill moves to a decode rank. */

typedef struct troupe_handoff_question {
  uint32_t struct_size;
  uint32_t source_rank;
  uint32_t source_incarnation;
  uint32_t unused_0;
  const troupe_request_view* request; /* Never NULL. */
  size_t request_size;                /* Bytes of *request as the host knows it. */
  int64_t tries;                      /* Handoffs of this request that failed. */
  int64_t transfers_of_source;        /* Under way from the same rank. */
  int64_t transfers;                  /* Under way in all; with 0, TROUPE_NONE is invalid. */
} troupe_handoff_question;

typedef struct troupe_handoff_answer {
  uint32_t struct_size;
  uint32_t reason;
  uint32_t mode; /* To set: TROUPE_HANDOFF_WHOLE. */
  uint32_t unused_0;
  int64_t retry_at_us; /* As in a placement's answer. The end of a transfer asks too. */
  char* message;
  size_t message_size;
} troupe_handoff_answer;

typedef struct troupe_handoff {
  uint32_t struct_size;
  uint32_t unused_0;
  int32_t (*decide)(void* self, const troupe_handoff_question* question, const troupe_call* call,
                    troupe_handoff_answer* answer);
} troupe_handoff;

/* EXPERIMENTAL kind "step": prefill slices and decode tokens of one engine step of one rank. */

typedef struct troupe_step_question {
  uint32_t struct_size;
  uint32_t unused_0;
  troupe_array slices;     /* troupe_slice_view, as the chunker packed them. */
  troupe_array decodes;    /* troupe_decode_view, the one that waited longest first. */
  int64_t step_tokens_max; /* >= 1. */
} troupe_step_question;

typedef struct troupe_step_answer {
  uint32_t struct_size;
  uint32_t reason;
  uint32_t* decodes;    /* [decodes.n] to fill from the front: places of those that get a token. */
  size_t n_decodes;     /* To set. */
  troupe_share* slices; /* [slices.n] to fill from the front; none longer than offered. */
  size_t n_slices;      /* To set. At least one token in all, at most step_tokens_max. */
  char* message;
  size_t message_size;
} troupe_step_answer;

typedef struct troupe_step {
  uint32_t struct_size;
  uint32_t unused_0;
  /* Always answers: TROUPE_NONE is invalid. */
  int32_t (*decide)(void* self, const troupe_step_question* question, const troupe_call* call,
                    troupe_step_answer* answer);
} troupe_step;

/* EXPERIMENTAL kind "overlap": whether a rank plans its next step while one is computed. */

typedef struct troupe_overlap_question {
  uint32_t struct_size;
  uint32_t unused_0;
  const troupe_overlap_view* view; /* Never NULL. */
  size_t view_size;                /* Bytes of *view as the host knows it. */
} troupe_overlap_question;

typedef struct troupe_overlap_answer {
  uint32_t struct_size;
  uint32_t reason;
  /* To set: 1 plans now, 0 waits. With plans_held = 0 it must be 1 when there are sequences; with
   * a plan held it must be 0 unless blocks_most <= blocks_free. */
  uint32_t plan_now;
  uint32_t masks_under_verify; /* 1: masks are built under the running step. */
  int64_t arrival_tokens;      /* Comes as 1; at most 1 + drafts. */
  char* message;
  size_t message_size;
} troupe_overlap_answer;

typedef struct troupe_overlap {
  uint32_t struct_size;
  uint32_t unused_0;
  /* Always answers: TROUPE_NONE is invalid. */
  int32_t (*decide)(void* self, const troupe_overlap_question* question, const troupe_call* call,
                    troupe_overlap_answer* answer);
} troupe_overlap;

/* -- What a library hands out -- */

typedef struct troupe_policy {
  uint32_t struct_size;
  uint32_t unused_0;
  const char* kind; /* "queue", "prefill_router", ... */
  const char* name; /* As a policy file says it: a-z, 0-9 and _; none of the built-in names. */
  /* JSON Schema of the options, or NULL when there are none:
   *   {"type": "object", "properties": {"alpha": {"type": "integer", "default": 3, "minimum": 0,
   *    "maximum": 10, "description": "What it does, with unit.", "x-hot": true}}}
   * type: integer, number, boolean or string. The host checks what a user wrote against it. */
  const char* options_schema;
  /* Makes an instance. `options` is one JSON object of options_len bytes and a terminating zero:
   * every option of the schema that was given or has a default, and nothing else; valid during the
   * call. Returns NULL when it cannot, with the reason in `error`: a buffer of error_size bytes
   * of the host, terminating zero included. */
  void* (*create)(const char* options, size_t options_len, char* error, size_t error_size);
  void (*destroy)(void* self);
  /* Both NULL: answers depend on nothing but options and questions. Otherwise the state is all that
   * later answers depend on besides those: an instance that took it over goes on exactly as the
   * one that gave it.
   * export_state returns its size, at most TROUPE_STATE_MAX, and writes it when size <= cap; `out`
   * may be NULL when cap is 0. import_state is called on an instance that has answered nothing
   * yet; it copies what it needs, and returns 0, or another number when the bytes are no state: the
   * instance then is as fresh as before. */
  size_t (*export_state)(void* self, uint8_t* out, size_t cap);
  int32_t (*import_state)(void* self, const uint8_t* in, size_t len);
  const void* table; /* Of the kind: troupe_queue, troupe_prefill_router, ... */
} troupe_policy;

#define TROUPE_STATE_MAX ((size_t)1 << 20)

typedef struct troupe_plugin {
  uint32_t struct_size;
  uint32_t abi_major; /* TROUPE_ABI_MAJOR and _MINOR of the header it was built with. */
  uint32_t abi_minor;
  uint32_t n;
  const char* name;
  const char* version;
  const troupe_policy* policies; /* [n], all of the same struct_size. */
} troupe_plugin;

/* The one exported function. NULL: this library cannot serve a host of that major number. It may
 * be called more than once, and returns the same tables each time. */
TROUPE_PLUGIN_EXPORT const troupe_plugin* troupe_plugin_entry(uint32_t host_abi_major);

/* -- Helpers -- */

/* A score from floating point: to the nearest integer, halves away from zero, clamped to the int64
 * range; not a number becomes the worst score. */
static inline int64_t troupe_score(double value) {
  if (!(value < 9223372036854775807.0)) return INT64_MAX;
  if (value <= -9223372036854775808.0) return INT64_MIN;
  /* Beyond 2^52 every double is whole; adding a half there could carry. */
  if (value >= 4503599627370496.0 || value <= -4503599627370496.0) return (int64_t)value;
  return (int64_t)(value < 0 ? value - 0.5 : value + 0.5);
}

/* Uniform in [0, n), n > 0; the same draws that a built-in policy would get. */
static inline uint64_t troupe_below(const troupe_call* call, uint64_t n) {
  const uint64_t threshold = (0 - n) % n;
  for (;;) {
    /* The 128-bit product of a draw and n, in halves. */
    const uint64_t bits = call->rng_next(call->rng);
    const uint64_t low = (bits & 0xFFFFFFFFu) * (n & 0xFFFFFFFFu);
    const uint64_t mid_1 = (bits >> 32) * (n & 0xFFFFFFFFu) + (low >> 32);
    const uint64_t mid_2 = (bits & 0xFFFFFFFFu) * (n >> 32) + (mid_1 & 0xFFFFFFFFu);
    const uint64_t high = (bits >> 32) * (n >> 32) + (mid_1 >> 32) + (mid_2 >> 32);
    if (bits * n >= threshold) return high;
  }
}

/* Tokens of prompt and answer so far, and of those still to prefill. */
static inline int64_t troupe_total(const troupe_request_view* request) {
  return request->prompt + request->answered;
}
static inline int64_t troupe_remaining(const troupe_request_view* request) {
  return troupe_total(request) - request->done;
}

/* Positions it holds at most. */
static inline int64_t troupe_positions_max(const troupe_request_view* request) {
  return request->prompt + request->new_tokens_max;
}

/* kv blocks for so many positions. */
static inline int64_t troupe_blocks_for(int64_t positions, int64_t block_tokens) {
  return positions <= 0 ? 0 : (positions - 1) / block_tokens + 1;
}

/* Positions that placement reserves where it decodes. */
static inline int64_t troupe_positions_reserved(const troupe_request_view* request) {
  const int64_t most = troupe_positions_max(request);
  int64_t longer = 1, wanted;
  if (request->reservation != TROUPE_RESERVE_EXPECTED || request->expected_p90 <= 0) return most;
  if (request->answered > 0) longer = request->answered + request->answered / 2 + 1;
  wanted = request->prompt + (longer > request->expected_p90 ? longer : request->expected_p90);
  return wanted < most ? wanted : most;
}

/* kv blocks that `rank` reserves for the request. */
static inline int64_t troupe_blocks_needed(const troupe_request_view* request,
                                           const troupe_rank_view* rank) {
  int64_t blocks;
  if (rank->role == TROUPE_ROLE_PREFILL) {
    return troupe_blocks_for(troupe_total(request), rank->block_tokens);
  }
  blocks = troupe_blocks_for(troupe_positions_reserved(request), rank->block_tokens);
  if (request->reservation != TROUPE_RESERVE_WORST && blocks > rank->kv_blocks_total) {
    return rank->kv_blocks_total;
  }
  return blocks;
}

/* Whether the rank could take the request if it were empty. */
static inline int troupe_could_fit(const troupe_request_view* request,
                                   const troupe_rank_view* rank) {
  int64_t least = troupe_total(request);
  const int64_t most = troupe_positions_max(request);
  if (rank->role != TROUPE_ROLE_PREFILL &&
      (request->reservation == TROUPE_RESERVE_WORST || most < least)) {
    least = most;
  }
  return troupe_blocks_for(least, rank->block_tokens) <= rank->kv_blocks_total &&
         rank->slots_total >= 1 && (rank->context_max <= 0 || most <= rank->context_max);
}

/* Whether a router or balancer may choose the rank now: the host's own check of an answer. */
static inline int troupe_has_room(const troupe_request_view* request,
                                  const troupe_rank_view* rank) {
  return !rank->draining && !rank->held && rank->slots_free >= 1 &&
         troupe_blocks_needed(request, rank) <= rank->kv_blocks_free &&
         troupe_could_fit(request, rank);
}

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TROUPE_POLICY_ABI_H */
