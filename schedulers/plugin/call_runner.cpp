#include "schedulers/plugin/call_runner.hpp"

#include <utility>

namespace troupe::sched {
namespace {

class DirectRunner final : public CallRunner {
public:
  explicit DirectRunner(std::unique_ptr<CallTarget> target) : target_(std::move(target)) {}
  DirectRunner(const DirectRunner&) = delete;
  DirectRunner& operator=(const DirectRunner&) = delete;
  ~DirectRunner() override { target_->end(); }

  CallTarget& target() noexcept override { return *target_; }
  bool idle() noexcept override { return true; }
  CallEnd run(std::int64_t /*limit_us*/) noexcept override {
    target_->run();
    return CallEnd::done;
  }
  bool may_be_late() const noexcept override { return false; }

private:
  std::unique_ptr<CallTarget> target_;
};

} // namespace

std::unique_ptr<CallRunner> direct_runner(std::unique_ptr<CallTarget> target) {
  return std::make_unique<DirectRunner>(std::move(target));
}

} // namespace troupe::sched
