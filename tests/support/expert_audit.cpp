#include "tests/support/expert_audit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace troupe::test {

/// Passes everything on and keeps what each step counted.
class CountingEngine final : public engine::Engine {
public:
  CountingEngine(ExpertAudit& audit, RankRef life, std::shared_ptr<engine::Engine> inner)
      : audit_(audit), life_(life), inner_(std::move(inner)) {}

  const engine::ModelFacts& model() const noexcept override { return inner_->model(); }
  const engine::KvFacts& kv() const noexcept override { return inner_->kv(); }
  Result<engine::StepResult> step(const engine::StepPlan& plan) override {
    auto result = inner_->step(plan);
    if (result.ok()) {
      audit_.note(life_, plan.step,
                  {plan.expert_epoch, static_cast<std::int64_t>(plan.tokens.size()),
                   result->expert_counts});
    }
    return result;
  }
  Result<engine::KvExport> export_kv(StateSlotId slot, std::span<const KvBlockId> blocks) override {
    return inner_->export_kv(slot, blocks);
  }
  Result<std::vector<std::span<std::byte>>>
  import_regions(StateSlotId slot, std::span<const KvBlockId> blocks) override {
    return inner_->import_regions(slot, blocks);
  }
  Status import_kv(const engine::KvManifest& manifest, StateSlotId slot,
                   std::span<const KvBlockId> blocks) override {
    return inner_->import_kv(manifest, slot, blocks);
  }

private:
  ExpertAudit& audit_;
  RankRef life_;
  std::shared_ptr<engine::Engine> inner_;
};

namespace {

/// Compares one report with the steps it covers.
std::string fault_of(const sched::ExpertLoads& report, const ExpertAudit::Life& life) {
  std::map<std::int32_t, std::vector<std::int64_t>> wanted;
  const auto first = life.find(report.first_step);
  auto at = first;
  std::int64_t tokens = 0;
  for (std::int64_t n = 0; n < report.steps; ++n, ++at) {
    if (at == life.end()) return "covers steps that did not run";
    if (at->second.epoch != report.epoch) return "mixes maps";
    tokens += at->second.tokens;
  }
  for (const sched::ExpertLayerLoads& layer : report.layers) {
    const auto experts = layer.counts.size();
    std::vector<std::int64_t> sums(experts, 0);
    for (auto step = first; step != at; ++step) {
      for (std::size_t e = 0; e < experts; ++e)
        sums[e] += step->second.counts.at(static_cast<std::size_t>(layer.layer) * experts + e);
    }
    if (sums != layer.counts) return fmt::format("layer {} is not the sum", layer.layer);
    const std::int64_t total = std::accumulate(sums.begin(), sums.end(), std::int64_t{0});
    if (tokens == 0 || total % tokens != 0) {
      return fmt::format("layer {}: {} visits of {} tokens", layer.layer, total, tokens);
    }
  }
  if (report.layers.empty()) return "has no layers";
  return {};
}

} // namespace

void ExpertAudit::note(const RankRef& rank, std::uint64_t step, Step counted) {
  const std::lock_guard lock(mutex_);
  lives_[{raw(rank.rank), raw(rank.incarnation)}].emplace(step, std::move(counted));
}

app::EngineWrap ExpertAudit::wrap() {
  return [this](const std::string&, RankRef life, std::shared_ptr<engine::Engine> inner) {
    return std::make_shared<CountingEngine>(*this, life, std::move(inner));
  };
}

actors::StageTap ExpertAudit::tap() {
  return [this](const std::string&, const sched::Event& event, std::int64_t) {
    const std::lock_guard lock(mutex_);
    if (const auto* loads = std::get_if<sched::ExpertLoads>(&event)) reports_.push_back(*loads);
    if (std::holds_alternative<sched::ExpertPlan>(event)) ++plans_heard_;
  };
}

std::vector<std::string> ExpertAudit::faults() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> out;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> next;
  for (const sched::ExpertLoads& report : reports_) {
    const std::pair key{raw(report.rank.rank), raw(report.rank.incarnation)};
    const std::string who =
        fmt::format("rank {}, life {}, step {}: ", key.first, key.second, report.first_step);
    const auto life = lives_.find(key);
    if (life == lives_.end()) {
      out.push_back(who + "a life without an engine");
      continue;
    }
    const std::string fault = fault_of(report, life->second);
    if (!fault.empty()) out.push_back(who + fault);
    // The step that should come first is the first one that no report had.
    const auto begin = life->second.lower_bound(next[key]);
    if (begin == life->second.end() || begin->first != report.first_step) {
      out.push_back(who + "steps before it are in no report");
    }
    next[key] = report.first_step + static_cast<std::uint64_t>(report.steps);
  }
  return out;
}

std::int64_t ExpertAudit::reports() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::int64_t>(reports_.size());
}

std::int64_t ExpertAudit::steps() const {
  const std::lock_guard lock(mutex_);
  std::int64_t sum = 0;
  for (const sched::ExpertLoads& report : reports_)
    sum += report.steps;
  return sum;
}

std::int64_t ExpertAudit::engine_steps() const {
  const std::lock_guard lock(mutex_);
  std::int64_t sum = 0;
  for (const auto& [key, life] : lives_)
    sum += static_cast<std::int64_t>(life.size());
  return sum;
}

std::set<ExpertEpoch> ExpertAudit::epochs() const {
  const std::lock_guard lock(mutex_);
  std::set<ExpertEpoch> out;
  for (const auto& [key, life] : lives_) {
    for (const auto& [step, counted] : life)
      out.insert(counted.epoch);
  }
  return out;
}

std::int64_t ExpertAudit::plans_heard() const {
  const std::lock_guard lock(mutex_);
  return plans_heard_;
}

} // namespace troupe::test
