// A library with a symbol that g++ makes unique in the whole process: without -fno-gnu-unique it
// stays in memory for ever.

#include "schedulers/plugin/policy_abi.h"

namespace {

int32_t order(void*, const troupe_queue_question* question, const troupe_call*,
              troupe_queue_answer* answer) {
  for (size_t i = 0; i < question->waiting.n; ++i)
    answer->positions[i] = static_cast<uint32_t>(i);
  answer->reason = TROUPE_REASON_IN_ORDER;
  return TROUPE_DONE;
}

} // namespace

/// What makes it unique: a static of a template with external linkage.
template <class T>
struct Shared {
  static int calls;
};
template <class T>
int Shared<T>::calls = 0;

const troupe_plugin* troupe_plugin_entry(uint32_t host_abi_major) {
  static const troupe_queue table = {sizeof(troupe_queue), 0, order, nullptr};
  static const troupe_policy policy = {
      sizeof(troupe_policy),
      0,
      "queue",
      "unique",
      nullptr,
      [](const char*, size_t, char*, size_t) -> void* { return &Shared<int>::calls; },
      [](void*) {},
      nullptr,
      nullptr,
      &table};
  static const troupe_plugin plugin = {
      sizeof(troupe_plugin), TROUPE_ABI_MAJOR, TROUPE_ABI_MINOR, 1, "unique", "1.0", &policy};
  ++Shared<int>::calls;
  return host_abi_major == TROUPE_ABI_MAJOR ? &plugin : nullptr;
}
