#include "schedulers/conformance/stretched_policy.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <vector>

namespace troupe::sched::conformance {
namespace {

constexpr std::size_t kMore = 64;        ///< Bytes of later fields.
constexpr unsigned char kForeign = 0xEE; ///< What they hold.

/// A struct with bytes behind it that its reader does not know.
template <class T>
class Longer {
public:
  explicit Longer(const T& known) : bytes_(sizeof(T) + kMore, kForeign) {
    std::memcpy(bytes_.data(), &known, sizeof(T));
  }
  T* known() noexcept { return reinterpret_cast<T*>(bytes_.data()); }
  std::size_t size() const noexcept { return bytes_.size(); }

private:
  std::vector<unsigned char> bytes_;
};

/// An array whose structs are longer each.
class LongerArray {
public:
  explicit LongerArray(troupe_array& array) : bytes_(array.n * (array.stride + kMore), kForeign) {
    for (std::size_t i = 0; i < array.n; ++i)
      std::memcpy(bytes_.data() + i * (array.stride + kMore), troupe_at(&array, i), array.stride);
    if (array.n > 0) array.data = bytes_.data();
    array.stride += kMore;
  }

private:
  std::vector<unsigned char> bytes_;
};

/// What stands behind the stretched tables: the policy that was last given to stretched().
PluginPolicy& original() {
  static PluginPolicy policy;
  return policy;
}

/// An instance, and the table that its kind reads.
struct Instance {
  PluginPolicy policy;
  void* self = nullptr;

  template <class Table>
  Table table() const {
    return struct_of_library<Table>(policy.policy.table);
  }
};

void* create(const char* options, std::size_t options_len, char* error, std::size_t error_size) {
  auto* instance = new Instance{original()};
  instance->self = instance->policy.policy.create(options, options_len, error, error_size);
  if (instance->self != nullptr) return instance;
  delete instance;
  return nullptr;
}

void destroy(void* self) {
  auto* instance = static_cast<Instance*>(self);
  instance->policy.policy.destroy(instance->self);
  delete instance;
}

std::size_t export_state(void* self, std::uint8_t* out, std::size_t cap) {
  const auto* instance = static_cast<const Instance*>(self);
  return instance->policy.policy.export_state(instance->self, out, cap);
}

std::int32_t import_state(void* self, const std::uint8_t* in, std::size_t len) {
  const auto* instance = static_cast<const Instance*>(self);
  return instance->policy.policy.import_state(instance->self, in, len);
}

/// A call whose struct and cost model are longer.
struct LongerCall {
  explicit LongerCall(const troupe_call& given) : model(*given.cost_model), call(given) {
    call.known()->struct_size = static_cast<std::uint32_t>(call.size());
    call.known()->cost_model = model.known();
    call.known()->cost_model_size = model.size();
  }
  Longer<troupe_cost_model> model;
  Longer<troupe_call> call;
};

// Lengthens what the questions of each kind point to, and keeps it alive.

struct Stretched {
  std::tuple<std::vector<Longer<troupe_request_view>>, std::vector<Longer<troupe_load_view>>,
             std::vector<Longer<troupe_overlap_view>>>
      views;
  std::vector<LongerArray> arrays;

  void lengthen(troupe_array& array) { arrays.emplace_back(array); }
  template <class View>
  void lengthen(const View*& view, std::size_t& size) {
    auto& longer = std::get<std::vector<Longer<View>>>(views).emplace_back(*view);
    view = longer.known();
    size = longer.size();
  }
  void lengthen(troupe_queue_question& question) { lengthen(question.waiting); }
  void lengthen(troupe_router_question& question) {
    lengthen(question.request, question.request_size);
    lengthen(question.ranks);
  }
  void lengthen(troupe_balancer_question& question) {
    lengthen(question.request, question.request_size);
    lengthen(question.ranks);
  }
  void lengthen(troupe_chunker_question& question) { lengthen(question.requests); }
  void lengthen(troupe_admission_question& question) {
    lengthen(question.request, question.request_size);
    lengthen(question.load, question.load_size);
  }
  void lengthen(troupe_handoff_question& question) {
    lengthen(question.request, question.request_size);
  }
  void lengthen(troupe_overlap_question& question) { lengthen(question.view, question.view_size); }
  void lengthen(troupe_step_question& question) {
    lengthen(question.slices);
    lengthen(question.decodes);
  }
};

template <class Table, class Question, class Answer>
std::int32_t decide(void* self, const Question* question, const troupe_call* call, Answer* answer) {
  const auto* instance = static_cast<const Instance*>(self);
  Stretched stretched;
  Question known = *question;
  stretched.lengthen(known);
  Longer<Question> longer(known);
  longer.known()->struct_size = static_cast<std::uint32_t>(longer.size());
  LongerCall longer_call(*call);
  Longer<Answer> longer_answer(*answer);
  longer_answer.known()->struct_size = static_cast<std::uint32_t>(longer_answer.size());
  const std::int32_t returned = instance->table<Table>().decide(
      instance->self, longer.known(), longer_call.call.known(), longer_answer.known());
  *answer = *longer_answer.known();
  answer->struct_size = sizeof(Answer);
  return returned;
}

void observe(void* self, const troupe_request_view* request, std::size_t /*request_size*/,
             std::uint32_t event, const troupe_call* call) {
  const auto* instance = static_cast<const Instance*>(self);
  const auto table = instance->table<troupe_queue>();
  if (table.observe == nullptr) return;
  Longer<troupe_request_view> longer(*request);
  LongerCall longer_call(*call);
  table.observe(instance->self, longer.known(), longer.size(), event, longer_call.call.known());
}

std::int64_t step_budget_ps(void* self, const troupe_cost_model* model, std::size_t /*model_size*/,
                            const troupe_host* host, std::int64_t step_tokens_max) {
  const auto* instance = static_cast<const Instance*>(self);
  Longer<troupe_cost_model> longer(*model);
  return instance->table<troupe_prefill_chunker>().step_budget_ps(
      instance->self, longer.known(), longer.size(), host, step_tokens_max);
}

/// A static table, as those of libraries are.
template <class Table, auto... functions>
const Table& table() {
  static constexpr Table made{sizeof(Table), 0, functions...};
  return made;
}

template <class Table, class Question, class Answer>
constexpr auto kDecide = decide<Table, Question, Answer>;

const void* table_of(const PluginPolicy& policy) {
  const std::string& kind = policy.kind;
  if (kind == "queue") {
    return &table<troupe_queue, kDecide<troupe_queue, troupe_queue_question, troupe_queue_answer>,
                  observe>();
  }
  if (kind == "prefill_router") {
    return &table<troupe_prefill_router, kDecide<troupe_prefill_router, troupe_router_question,
                                                 troupe_placement_answer>>();
  }
  if (kind == "decode_balancer") {
    return &table<troupe_decode_balancer, kDecide<troupe_decode_balancer, troupe_balancer_question,
                                                  troupe_placement_answer>>();
  }
  if (kind == "admission") {
    return &table<troupe_admission,
                  kDecide<troupe_admission, troupe_admission_question, troupe_admission_answer>>();
  }
  if (kind == "handoff") {
    return &table<troupe_handoff,
                  kDecide<troupe_handoff, troupe_handoff_question, troupe_handoff_answer>>();
  }
  if (kind == "step") {
    return &table<troupe_step, kDecide<troupe_step, troupe_step_question, troupe_step_answer>>();
  }
  if (kind == "overlap") {
    return &table<troupe_overlap,
                  kDecide<troupe_overlap, troupe_overlap_question, troupe_overlap_answer>>();
  }
  constexpr auto kPack =
      kDecide<troupe_prefill_chunker, troupe_chunker_question, troupe_chunker_answer>;
  const auto own = struct_of_library<troupe_prefill_chunker>(policy.policy.table);
  if (own.step_budget_ps == nullptr) return &table<troupe_prefill_chunker, kPack>();
  return &table<troupe_prefill_chunker, kPack, step_budget_ps>();
}

} // namespace

PluginPolicy stretched(const PluginPolicy& policy) {
  original() = policy;
  PluginPolicy made = policy;
  made.policy.create = create;
  made.policy.destroy = destroy;
  if (policy.policy.export_state != nullptr) {
    made.policy.export_state = export_state;
    made.policy.import_state = import_state;
  }
  made.policy.table = table_of(policy);
  return made;
}

} // namespace troupe::sched::conformance
