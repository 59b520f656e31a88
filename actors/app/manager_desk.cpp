#include "actors/app/manager_desk.hpp"

#include "actors/messages.hpp"

#include <map>
#include <mutex>
#include <utility>

namespace troupe::app {

namespace {

/// Questions that wait for their answer. Thread: any.
class QuestionBook {
public:
  /// Number 0 when the book is closed: the future then is broken.
  std::pair<std::uint64_t, ControlDesk::Ended> open() {
    const std::lock_guard lock(mutex_);
    std::promise<sched::SwapEnded> promise;
    ControlDesk::Ended ended = promise.get_future();
    if (closed_) return {0, std::move(ended)};
    promises_.emplace(++last_, std::move(promise));
    return {last_, std::move(ended)};
  }
  void answer(const sched::SwapEnded& ended) {
    const std::lock_guard lock(mutex_);
    const auto at = promises_.find(ended.question);
    if (at == promises_.end()) return;
    at->second.set_value(ended);
    promises_.erase(at);
  }
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    promises_.clear();
  }

private:
  std::mutex mutex_;
  std::map<std::uint64_t, std::promise<sched::SwapEnded>> promises_;
  std::uint64_t last_ = 0;
  bool closed_ = false;
};

struct AskerConfig {
  caf::actor manager;
  std::shared_ptr<QuestionBook> book;
};

/// Passes questions on under its own name, so that the answers come to it.
caf::behavior asker_actor(caf::event_based_actor* self, AskerConfig config) {
  self->attach_functor([book = config.book] { book->close(); });
  return {
      [=](const sched::SwapAsked& asked) { self->send(config.manager, asked); },
      [=](const sched::RollbackAsked& asked) { self->send(config.manager, asked); },
      [=](const sched::PromoteAsked& asked) { self->send(config.manager, asked); },
      [=](const sched::SwapEnded& ended) { config.book->answer(ended); },
      [=](const actors::Stop&) { self->quit(); },
  };
}

class ManagerDesk final : public ControlDesk {
public:
  ManagerDesk(ManagerDeskParts parts, caf::actor asker, std::shared_ptr<QuestionBook> book)
      : parts_(std::move(parts)), asker_(std::move(asker)), book_(std::move(book)) {}

  Ended ask(sched::SwapAsked asked) override { return pass(std::move(asked)); }
  Ended ask(sched::RollbackAsked asked) override { return pass(std::move(asked)); }
  Ended ask(sched::PromoteAsked asked) override { return pass(std::move(asked)); }
  actors::ManagerView view() const override { return parts_.facts->view(); }
  std::string top() const override { return parts_.top(view()); }
  LedgerReply write_ledger() override { return parts_.write_ledger(); }

private:
  template <class Asked>
  Ended pass(Asked asked) {
    auto [number, ended] = book_->open();
    if (number == 0) return std::move(ended);
    asked.question = number;
    caf::anon_send(asker_, std::move(asked));
    return std::move(ended);
  }

  ManagerDeskParts parts_;
  caf::actor asker_;
  std::shared_ptr<QuestionBook> book_;
};

} // namespace

OpenedDesk open_desk(caf::actor_system& system, ManagerDeskParts parts) {
  const auto book = std::make_shared<QuestionBook>();
  caf::actor asker = actors::spawn_stage(system, actors::Threads::shared, asker_actor,
                                         AskerConfig{parts.manager, book});
  auto desk = std::make_shared<ManagerDesk>(std::move(parts), asker, book);
  return {std::move(desk), std::move(asker)};
}

} // namespace troupe::app
