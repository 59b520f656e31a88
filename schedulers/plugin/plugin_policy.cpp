#include "schedulers/plugin/plugin_policy.hpp"

#include "schedulers/core/check.hpp"
#include "schedulers/core/printable.hpp"
#include "schedulers/plugin/plugin_kinds.hpp"

#include <map>
#include <utility>

namespace troupe::sched {
namespace {

const std::map<std::string, PluginKind>& kinds() {
  static const std::map<std::string, PluginKind> all = {{"admission", plugin_admission_kind()},
                                                        {"queue", plugin_queue_kind()},
                                                        {"prefill_router", plugin_router_kind()},
                                                        {"prefill_chunker", plugin_chunker_kind()},
                                                        {"handoff", plugin_handoff_kind()},
                                                        {"decode_balancer", plugin_balancer_kind()},
                                                        {"step", plugin_step_kind()},
                                                        {"overlap", plugin_overlap_kind()}};
  return all;
}

} // namespace

Result<std::unique_ptr<Policy>> make_plugin_policy(const PluginPolicy& policy,
                                                   std::shared_ptr<const void> library,
                                                   const std::string& options,
                                                   const PluginLimits& limits,
                                                   const RunnerMaker& make_runner) {
  const auto kind = kinds().find(policy.kind);
  TROUPE_CHECK(kind != kinds().end(), "a library's kinds are checked when it is read");
  std::unique_ptr<PluginInstance> instance =
      kind->second.instance(policy.policy, std::move(library));
  instance->text = options;
  std::unique_ptr<CallRunner> runner = make_runner(std::move(instance));
  const std::string who = policy.kind + " \"" + policy.name + "\": ";
  if (!runner) {
    return {ErrorCode::io_error, who + "the system gave no thread for its lane"};
  }
  if (runner->run(limits.create_ms * 1000) == CallEnd::late) {
    return {ErrorCode::unsupported,
            who + "create did not return within " + std::to_string(limits.create_ms) + " ms"};
  }
  const auto& held = static_cast<const PluginInstance&>(runner->target());
  if (held.threw) return {ErrorCode::unsupported, who + "create let an exception out"};
  if (!held.created()) {
    const std::string why = printable(held.message.data(), held.message.size());
    return {ErrorCode::bad_argument,
            who + "create failed: " + (why.empty() ? "it returned NULL without a reason" : why)};
  }
  return kind->second.policy(PluginSeat(std::move(runner), limits));
}

} // namespace troupe::sched
