// Policies behind the C ABI that are made in the test: each function is what the test wants.

#pragma once

#include "schedulers/plugin/plugin_policy.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe::sched::testing {

/// Counts what became of instances.
struct FakeCounts {
  int created = 0;
  int destroyed = 0;
};

/// One decode balancer whose calls are functions of the test; one at a time.
struct FakeBalancer {
  using Decide = std::function<std::int32_t(const troupe_balancer_question&, const troupe_call&,
                                            troupe_placement_answer&)>;
  Decide decide;
  std::string state;          ///< Exported; imported over it.
  std::size_t extra_size = 0; ///< What export_state says beyond the truth.
  std::string create_error;
  std::string options; ///< As create got them.
  FakeCounts counts;
};

inline FakeBalancer*& fake() {
  static FakeBalancer* one = nullptr;
  return one;
}

inline void* fake_create(const char* options, std::size_t n, char* error, std::size_t size) {
  fake()->options.assign(options, n);
  if (!fake()->create_error.empty()) {
    fake()->create_error.copy(error, size - 1);
    return nullptr;
  }
  ++fake()->counts.created;
  return fake();
}
inline void fake_destroy(void* self) { ++static_cast<FakeBalancer*>(self)->counts.destroyed; }
inline std::int32_t fake_decide(void* self, const troupe_balancer_question* question,
                                const troupe_call* call, troupe_placement_answer* answer) {
  return static_cast<FakeBalancer*>(self)->decide(*question, *call, *answer);
}
inline std::size_t fake_export(void* self, std::uint8_t* out, std::size_t cap) {
  const auto& one = *static_cast<FakeBalancer*>(self);
  if (one.state.size() <= cap) std::copy(one.state.begin(), one.state.end(), out);
  return one.state.size() + one.extra_size;
}
inline std::int32_t fake_import(void* self, const std::uint8_t* in, std::size_t len) {
  if (len == 0 || in[0] == '!') return 1;
  static_cast<FakeBalancer*>(self)->state.assign(reinterpret_cast<const char*>(in), len);
  return 0;
}

/// Its row in a library's table.
inline troupe_policy fake_row(bool has_state) {
  static constexpr troupe_decode_balancer table{sizeof(troupe_decode_balancer), 0, fake_decide};
  troupe_policy row{};
  row.struct_size = sizeof row;
  row.kind = "decode_balancer";
  row.name = "fake";
  row.create = fake_create;
  row.destroy = fake_destroy;
  row.export_state = has_state ? fake_export : nullptr;
  row.import_state = has_state ? fake_import : nullptr;
  row.table = &table;
  return row;
}

inline PluginPolicy fake_policy(bool has_state = false) {
  return {"decode_balancer", "fake", "", fake_row(has_state)};
}

} // namespace troupe::sched::testing
