#include "actors/records/event_codec.hpp"

#include "actors/records/ledger.pb.h"
#include "actors/records/set_codec.hpp"
#include "actors/records/wire.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <variant>

namespace troupe::actors {

namespace {

/// One of a variant as the only field of a message: its number is its place there, from 1.
template <class Variant>
void encode_one(const Variant& value, std::string& out) {
  WireWriter writer(out);
  std::visit(
      [&](const auto& one) { writer.message(static_cast<std::uint32_t>(value.index() + 1), one); },
      value);
}

template <class Variant, std::size_t... I>
bool decode_as(std::uint32_t number, std::string_view content, Variant& out,
               std::index_sequence<I...>) {
  bool ok = false;
  (void)((number == I + 1 && (ok = WireReader::read(content, out.template emplace<I>()), true)) ||
         ...);
  return ok;
}

template <class Variant>
Result<Variant> decode_one(std::string_view bytes, const char* what) {
  WireReader reader(bytes);
  std::string_view content;
  const std::uint32_t number = reader.message(content);
  constexpr std::size_t kCount = std::variant_size_v<Variant>;
  if (number > kCount) {
    return Error{ErrorCode::parse_error, std::string(what) + " of unknown kind " +
                                             std::to_string(number) + ", expected 1 to " +
                                             std::to_string(kCount)};
  }
  Variant out;
  if (reader.at_end() && decode_as(number, content, out, std::make_index_sequence<kCount>{}))
    return out;
  return Error{ErrorCode::parse_error, std::string(what) + " that contradicts itself"};
}

} // namespace

std::string encode_policies(const sched::PolicySet& set) {
  records::LiveSet out;
  put({set, sched::SwapCause::start, {}}, out);
  return out.SerializeAsString();
}

bool decode_policies(std::string_view bytes, sched::PolicySet& set) {
  records::LiveSet in;
  if (!in.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return false;
  auto live = take_set(in);
  if (live.ok()) set = std::move(live->set);
  return live.ok();
}

void encode(const sched::Event& event, std::string& out) { encode_one(event, out); }

Result<sched::Event> decode_event(std::string_view bytes) {
  return decode_one<sched::Event>(bytes, "an event");
}

void encode(const sched::StageOptions& options, std::string& out) { encode_one(options, out); }

Result<sched::StageOptions> decode_options(std::string_view bytes) {
  return decode_one<sched::StageOptions>(bytes, "options of a stage");
}

} // namespace troupe::actors
