// Bytes of an answer → events: the same whole, in single bytes and at random cuts.
//
// The first four bytes choose the stage, the flags, the stop strings and the cuts.

#include "engine/text/output_parser.hpp"
#include "schedulers/core/rng.hpp"
#include "tests/fuzz/fuzz_target.hpp"

#include <array>
#include <vector>

namespace {

using namespace troupe;

constexpr std::array<std::string_view, 5> kStops = {"stop", "\n\n", "</thin", "\xC3\xA4",
                                                    "<\xEF\xBD\x9C"};
constexpr std::size_t kHeadBytes = 4;
constexpr int kStages = 6;

/// Parses `bytes` cut into pieces of 1 to `piece_max` bytes; neighbouring texts become one.
std::vector<text::OutputEvent> parse(const text::ParserOptions& options, text::GenerationEnd end,
                                     std::string_view bytes, std::uint64_t piece_max, Rng& rng) {
  text::OutputParser parser(options);
  std::vector<text::OutputEvent> all;
  while (!bytes.empty()) {
    const std::size_t count = std::min<std::size_t>(bytes.size(), 1 + rng.below(piece_max));
    parser.push(bytes.substr(0, count), all);
    bytes.remove_prefix(count);
  }
  parser.finish(end, all);
  std::vector<text::OutputEvent> merged;
  for (text::OutputEvent& event : all) {
    const bool joins = !merged.empty() && event.kind != text::OutputKind::call &&
                       merged.back().kind == event.kind &&
                       merged.back().call_index == event.call_index;
    if (joins) {
      merged.back().text += event.text;
    } else {
      merged.push_back(std::move(event));
    }
  }
  return merged;
}

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < kHeadBytes) return 0;
  text::ParserOptions options;
  options.initial_stage = static_cast<text::InitialStage>(data[0] % kStages);
  options.parse_tool_calls = (data[1] & 1U) == 0;
  const auto end = static_cast<text::GenerationEnd>((data[1] >> 1U) % 3);
  for (std::size_t i = 0; i < kStops.size(); ++i) {
    if ((data[2] >> i & 1U) != 0) options.stop_strings.emplace_back(kStops[i]);
  }
  Rng rng(data[3]);
  const std::string_view bytes = fuzz::text_of(data + kHeadBytes, size - kHeadBytes);
  const auto whole = parse(options, end, bytes, std::max<std::size_t>(bytes.size(), 1) << 8U, rng);
  fuzz::require(!whole.empty() && whole.back().kind == text::OutputKind::finish,
                "an output ends once");
  fuzz::require(parse(options, end, bytes, 1, rng) == whole, "single bytes give the same");
  fuzz::require(parse(options, end, bytes, 7, rng) == whole, "random cuts give the same");
  return 0;
}
