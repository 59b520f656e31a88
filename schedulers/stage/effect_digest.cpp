#include "schedulers/stage/effect_digest.hpp"

#include "schedulers/stage/field_walker.hpp"

#include <array>
#include <string_view>
#include <variant>

namespace troupe::sched {

namespace {

constexpr std::array<std::string_view, std::variant_size_v<Effect>> kEffectNames = {
    "send",         "set_timer", "run_step", "export_sequence", "import_sequence",
    "forget",       "emit",      "finish",   "stuck",           "start_rank",
    "abandon_rank", "record",    "observed", "milestone",       "rank_change"};
static_assert(!kEffectNames.back().empty(), "every effect has a name");

/// Of the event that a message is for its receiver.
std::string message_name(const Message& message) {
  return std::visit(
      [](const auto& one) {
        const Event event{one};
        return std::string(kEventNames[event.index()]);
      },
      message);
}

} // namespace

bool is_kept(const Effect& effect) noexcept {
  return std::holds_alternative<Record>(effect) || std::holds_alternative<Observed>(effect) ||
         std::holds_alternative<Milestone>(effect) || std::holds_alternative<Finish>(effect) ||
         std::holds_alternative<RankChange>(effect);
}

std::uint32_t digest_of(const Effect& effect) {
  DigestSink sink;
  sink.word(effect.index());
  if (!is_kept(effect)) {
    FieldWalker<DigestSink> walker(sink);
    std::visit([&](const auto& one) { walker.walk(one); }, effect);
  }
  return static_cast<std::uint32_t>(sink.digest ^ sink.digest >> 32);
}

std::vector<std::uint32_t> digests_of(const Effects& effects) {
  std::vector<std::uint32_t> out;
  out.reserve(effects.list().size());
  for (const Effect& effect : effects.list())
    out.push_back(digest_of(effect));
  return out;
}

std::string effect_name(const Effect& effect) {
  const auto* send = std::get_if<Send>(&effect);
  std::string out(kEffectNames[effect.index()]);
  return send == nullptr ? out : out + " " + message_name(send->message);
}

} // namespace troupe::sched
