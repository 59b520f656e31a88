// Loaded prefill chunkers and step policies: both fill shares of candidates.

#include "schedulers/plugin/plugin_kinds.hpp"
#include "schedulers/policy/prefill_chunker.hpp"
#include "schedulers/policy/step_policy.hpp"

namespace troupe::sched {
namespace {

std::vector<Share> shares_of(const std::vector<troupe_share>& shares, std::size_t n) {
  std::vector<Share> out;
  out.reserve(n);
  for (std::size_t i = 0; i < n; ++i)
    out.push_back({shares[i].candidate, shares[i].tokens});
  return out;
}

bool fits(PluginSeat& seat, const char* what, std::size_t filled, std::size_t room) noexcept {
  return filled <= room || seat.refuse("the answer has " + std::to_string(filled) + " " + what +
                                       " of " + std::to_string(room));
}

class ChunkerInstance final : public PluginInstance {
public:
  ChunkerInstance(const troupe_policy& policy, std::shared_ptr<const void> library)
      : PluginInstance(policy, std::move(library)),
        table_(struct_of_library<troupe_prefill_chunker>(policy.table)) {}

  bool has_budget() const noexcept { return table_.step_budget_ps != nullptr; }

  void hold(const PackQuery& query, std::span<const RequestView> requests, bool copy) {
    query_ = query;
    requests_.hold(requests, copy);
    shares_.assign(requests.size(), troupe_share{UINT32_MAX, 0, 0});
  }

  Decision<Slices> answer(PluginSeat& seat) const noexcept {
    Decision<Slices> decision;
    if (!seat.explain(answer_.reason, decision.reason)) return {};
    if (returned == TROUPE_NONE) {
      decision.retry_at_us = answer_.retry_at_us;
      return decision;
    }
    if (!fits(seat, "shares", answer_.n, shares_.size())) return {};
    decision.value = Slices{shares_of(shares_, answer_.n)};
    return decision;
  }

  std::int64_t budget_tokens = 0; ///< In, with context.cost_model.
  std::int64_t budget_ps = 0;     ///< Out.

private:
  std::int32_t decide(const troupe_call& call) override {
    troupe_chunker_question question{};
    question.struct_size = sizeof question;
    question.rank = raw(query_.rank.rank);
    question.incarnation = raw(query_.rank.incarnation);
    question.step_tokens_max = query_.step_tokens_max;
    question.requests = requests_.array();
    begin_answer(answer_, message);
    answer_.shares = shares_.data();
    return table_.decide(self(), &question, &call, &answer_);
  }

  void budget() override {
    budget_ps = table_.step_budget_ps(
        self(), reinterpret_cast<const troupe_cost_model*>(&context.cost_model),
        sizeof(troupe_cost_model), &plugin_host(), budget_tokens);
  }

  troupe_prefill_chunker table_;
  PackQuery query_;
  HeldViews<RequestView> requests_;
  std::vector<troupe_share> shares_;
  troupe_chunker_answer answer_{};
};

class LoadedChunker final : public Loaded<PrefillChunker> {
public:
  using Instance = ChunkerInstance;
  explicit LoadedChunker(PluginSeat seat)
      : Loaded(std::move(seat)), has_budget_(seat_.instance<ChunkerInstance>().has_budget()) {}

  Decision<Slices> pack(const PackQuery& query, std::span<const RequestView> requests,
                        const PolicyContext& ctx) noexcept override {
    return ask<ChunkerInstance>(ctx, query, requests, seat_.copies());
  }

  std::int64_t step_budget_ps(const CostModel& model,
                              std::int64_t step_tokens_max) const noexcept override {
    for (const Budget& known : budgets_) {
      if (known.step_tokens_max == step_tokens_max && known.model == model) return known.ps;
    }
    const std::int64_t whole = model.chunk_ps(step_tokens_max, 0);
    if (!has_budget_) return whole;
    if (!seat_.idle()) return whole;
    auto& held = seat_.instance<ChunkerInstance>();
    held.context.cost_model = model;
    held.budget_tokens = step_tokens_max;
    if (!seat_.run(PluginJob::budget)) return whole;
    if (held.budget_ps < 0) {
      seat_.refuse("step_budget_ps returned " + std::to_string(held.budget_ps));
      return whole;
    }
    if (budgets_.size() >= kBudgetsMax) budgets_.clear();
    budgets_.push_back({model, step_tokens_max, held.budget_ps});
    return held.budget_ps;
  }

private:
  static constexpr std::size_t kBudgetsMax = 64; ///< Ranks of so many sizes and cost models.

  struct Budget {
    CostModel model;
    std::int64_t step_tokens_max = 0;
    std::int64_t ps = 0;
  };

  bool has_budget_;
  mutable std::vector<Budget> budgets_;
};

class StepInstance final : public PluginInstance {
public:
  StepInstance(const troupe_policy& policy, std::shared_ptr<const void> library)
      : PluginInstance(policy, std::move(library)),
        table_(struct_of_library<troupe_step>(policy.table)) {}

  void hold(const StepQuery& query, bool copy) {
    slices_.hold(query.slices, copy);
    decodes_.hold(query.decodes, copy);
    step_tokens_max_ = query.step_tokens_max;
    filled_slices_.assign(query.slices.size(), troupe_share{UINT32_MAX, 0, 0});
    filled_decodes_.assign(query.decodes.size(), UINT32_MAX);
  }

  Decision<StepDecision> answer(PluginSeat& seat) const noexcept {
    Decision<StepDecision> decision;
    if (!seat.explain(answer_.reason, decision.reason)) return {};
    if (returned == TROUPE_NONE) return decision;
    if (!fits(seat, "slices", answer_.n_slices, filled_slices_.size())) return {};
    if (!fits(seat, "decodes", answer_.n_decodes, filled_decodes_.size())) return {};
    const auto end = filled_decodes_.begin() + static_cast<std::ptrdiff_t>(answer_.n_decodes);
    decision.value = StepDecision{std::vector<std::uint32_t>(filled_decodes_.begin(), end),
                                  shares_of(filled_slices_, answer_.n_slices)};
    return decision;
  }

private:
  std::int32_t decide(const troupe_call& call) override {
    troupe_step_question question{};
    question.struct_size = sizeof question;
    question.slices = slices_.array();
    question.decodes = decodes_.array();
    question.step_tokens_max = step_tokens_max_;
    begin_answer(answer_, message);
    answer_.decodes = filled_decodes_.data();
    answer_.slices = filled_slices_.data();
    return table_.decide(self(), &question, &call, &answer_);
  }

  troupe_step table_;
  HeldViews<OfferedSlice> slices_;
  HeldViews<DecodeView> decodes_;
  std::int64_t step_tokens_max_ = 1;
  std::vector<troupe_share> filled_slices_;
  std::vector<std::uint32_t> filled_decodes_;
  troupe_step_answer answer_{};
};

class LoadedStep final : public Loaded<StepPolicy> {
public:
  using Instance = StepInstance;
  using Loaded::Loaded;
  Decision<StepDecision> compose(const StepQuery& query,
                                 const PolicyContext& ctx) noexcept override {
    return ask<StepInstance>(ctx, query, seat_.copies());
  }
};

} // namespace

PluginKind plugin_chunker_kind() { return plugin_kind<LoadedChunker>(); }
PluginKind plugin_step_kind() { return plugin_kind<LoadedStep>(); }

} // namespace troupe::sched
