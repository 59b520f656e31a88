/* DeepSeek's rule for decode ranks in C: even out the number of requests and the KV they hold.
 *
 * Each rank gets its share of all requests and its share of all context, with the new request added
 * to it; the sum of both shares is its score, and the lowest one with room wins.
 * Source: "Decode Load Balancer" in the DeepSeek-V3/R1 inference system overview (2025).
 */

#include <stdio.h>
#include <stdlib.h>
#include <troupe/policy_abi.h>
#include <troupe/policy_options.h>

static const char kSchema[] =
    "{\"type\": \"object\", \"properties\": {\"kv_weight\": {"
    "\"type\": \"number\", \"default\": 1.0, \"minimum\": 0, \"maximum\": 10, \"x-hot\": true, "
    "\"description\": \"What the share of context counts, beside 1 for the share of requests.\"}}}";

typedef struct balancer {
  int64_t kv_weight; /* Thousandths. */
} balancer;

static void* create(const char* options, size_t options_len, char* error, size_t error_size) {
  balancer* self = (balancer*)malloc(sizeof(balancer));
  (void)options_len;
  if (self == NULL) {
    (void)snprintf(error, error_size, "out of memory");
    return NULL;
  }
  self->kv_weight = troupe_option_thousandths(options, "kv_weight", 1000);
  return self;
}

static void destroy(void* self) { free(self); }

/* `part` of `total` in millionths. Clamped, so that no view can overflow it. */
static int64_t share(int64_t part, int64_t total) {
  const int64_t most = INT64_MAX / 1000000;
  while (part > most || total > most) {
    part /= 2;
    total /= 2;
  }
  return total <= 0 ? 0 : part * 1000000 / total;
}

static int64_t sum(int64_t a, int64_t b) { return a > INT64_MAX - b ? INT64_MAX : a + b; }

static int32_t decide(void* self, const troupe_balancer_question* question, const troupe_call* call,
                      troupe_placement_answer* answer) {
  const balancer* own = (const balancer*)self;
  const troupe_request_view* request = question->request;
  const int64_t context = troupe_total(request);
  int64_t all_running = 1, all_context = context, best_score = 0;
  size_t candidates = 0, i;
  int tied = 0;
  (void)call;
  for (i = 0; i < question->ranks.n; ++i) {
    const troupe_rank_view* rank = troupe_rank_at(&question->ranks, i);
    all_running = sum(all_running, rank->running);
    all_context = sum(all_context, rank->context_tokens);
  }
  for (i = 0; i < question->ranks.n; ++i) {
    const troupe_rank_view* rank = troupe_rank_at(&question->ranks, i);
    const int room = troupe_has_room(request, rank);
    int64_t score = INT64_MAX;
    if (room) {
      score = share(sum(1, rank->running), all_running) +
              share(sum(context, rank->context_tokens), all_context) * own->kv_weight / 1000;
    }
    if (answer->scores != NULL) answer->scores[i] = score;
    if (!room) continue;
    ++candidates;
    if (candidates == 1 || score < best_score) {
      best_score = score;
      answer->rank = rank->rank;
      tied = 0;
    } else if (score == best_score) {
      tied = 1; /* The first one stays: ranks come by rising id. */
    }
  }
  if (candidates == 0) {
    answer->reason = TROUPE_REASON_NO_ROOM;
    return TROUPE_NONE;
  }
  answer->scored = answer->scores != NULL;
  answer->reason = candidates == 1 ? TROUPE_REASON_ONLY_CHOICE
                   : tied          ? TROUPE_REASON_TIE_LOWEST_ID
                                   : TROUPE_REASON_LOWEST_SCORE;
  return TROUPE_DONE;
}

static const troupe_decode_balancer kTable = {sizeof(troupe_decode_balancer), 0, decide};

static const troupe_policy kPolicies[] = {{sizeof(troupe_policy), 0, "decode_balancer",
                                           "count_and_length", kSchema, create, destroy, NULL, NULL,
                                           &kTable}};

static const troupe_plugin kPlugin = {sizeof(troupe_plugin), TROUPE_ABI_MAJOR, TROUPE_ABI_MINOR, 1,
                                      "policy_plugin_c",     "1.0.0",          kPolicies};

const troupe_plugin* troupe_plugin_entry(uint32_t host_abi_major) {
  return host_abi_major == TROUPE_ABI_MAJOR ? &kPlugin : NULL;
}
