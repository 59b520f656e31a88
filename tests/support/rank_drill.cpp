#include "tests/support/rank_drill.hpp"

#include <chrono>
#include <stdexcept>
#include <thread>

namespace troupe::test {

namespace {

constexpr std::chrono::seconds kDeathWait{20};
constexpr std::chrono::milliseconds kAfterAbandonment{50};

RankId id_of(const app::LocalSystem& system, const std::string& name) {
  for (std::size_t i = 0; i < system.rank_names().size(); ++i) {
    if (system.rank_names()[i] == name) return RankId{static_cast<std::uint32_t>(i)};
  }
  throw std::runtime_error("no rank is called " + name);
}

} // namespace

std::ostream& operator<<(std::ostream& out, const DeathPoint& point) { return out << point.name; }

RankDrill::~RankDrill() {
  release();
  if (fired_ && point_.death == Death::hangs) wait_for_death();
}

LiveOptions RankDrill::options() {
  LiveOptions out;
  out.tap = [this](const std::string& stage, const sched::Event& event, std::int64_t) {
    on_event(stage, event);
  };
  out.wrap = [this](const std::string& rank, RankRef life, std::shared_ptr<engine::Engine> engine) {
    return std::make_shared<FaultyEngine>(
        std::move(engine), [this, rank, life](EngineCall call, const engine::StepPlan* plan) {
          on_call(rank, life, call, plan);
        });
  };
  out.on_system = [this](app::LocalSystem& system) { system_ = &system; };
  return out;
}

/// Counts an occurrence of the point; true once, for the one that is meant.
bool RankDrill::is_due() {
  if (fired_ || system_.load() == nullptr) return false;
  return ++seen_ == point_.occurrence && !fired_.exchange(true);
}

void RankDrill::on_event(const std::string& stage, const sched::Event& event) {
  if (stage == point_.stage && point_.event(event) && is_due()) strike();
}

void RankDrill::on_call(const std::string& rank, RankRef life, EngineCall call,
                        const engine::StepPlan* plan) {
  if (call == EngineCall::closed) {
    if (rank == point_.victim && raw(life.incarnation) == 1) victim_closed_ = true;
    return;
  }
  if (rank != point_.engine || call != point_.call) return;
  if (point_.plan && !point_.plan(plan)) return;
  if (is_due()) strike();
}

void RankDrill::strike() {
  switch (point_.death) {
  case Death::throws:
    throw std::runtime_error("a drill");
  case Death::killed:
    kill_and_wait();
    return;
  case Death::hangs:
    hang();
    return;
  }
}

void RankDrill::kill_and_wait() {
  const app::LocalSystem& system = *system_;
  caf::anon_send_exit(system.actors().peers->ranks.find(id_of(system, point_.victim)),
                      caf::exit_reason::kill);
  wait_for_death();
  if (!victim_closed_) throw std::runtime_error("the victim does not die");
}

void RankDrill::wait_for_death() {
  const auto end = std::chrono::steady_clock::now() + kDeathWait;
  while (!victim_closed_ && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
}

void RankDrill::hang() {
  const auto facts = system_.load()->actors().supervised;
  std::unique_lock lock(mutex_);
  while (!released_ && (keeps_ || facts->hanging == 0))
    changed_.wait_for(lock, std::chrono::milliseconds{5});
  // Beyond its abandonment, so that the next life is at work when this one returns.
  if (!released_) changed_.wait_for(lock, kAfterAbandonment, [this] { return released_; });
}

void RankDrill::release() {
  const std::lock_guard lock(mutex_);
  released_ = true;
  changed_.notify_all();
}

} // namespace troupe::test
