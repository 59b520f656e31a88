// Entries of the ledger survive their bytes whole, whatever stands in them.

#include "actors/ledger_text.hpp"
#include "actors/records/asked_codec.hpp"
#include "actors/records/ledger_codec.hpp"
#include "tests/support/random_entries.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <type_traits>

namespace troupe::actors {
namespace {

using sched::LedgerEntry;
using test::RandomEntries;

constexpr std::uint64_t kSeeds = 300;

// -- answers as no policy would give them --------------------------------------------------------

void fill(RandomEntries& random, sched::Admission& answer) {
  answer = random.one_in(2) ? sched::Admission::admit : sched::Admission::reject;
}
void fill(RandomEntries& random, sched::Order& answer) {
  for (std::uint64_t n = random.below(12); n > 0; --n)
    answer.positions.push_back(static_cast<std::uint32_t>(random.below(12)));
}
void fill(RandomEntries& random, sched::Placement& answer) {
  answer.rank = RankId{static_cast<std::uint32_t>(random.below(9))};
  for (std::uint64_t n = random.below(4); n > 0; --n)
    answer.scores.push_back(random.count(1'000));
}
void fill(RandomEntries& random, std::vector<sched::Share>& shares) {
  for (std::uint64_t n = random.below(4); n > 0; --n)
    shares.push_back({static_cast<std::uint32_t>(random.below(8)), random.count(90)});
}
void fill(RandomEntries& random, sched::Slices& answer) { fill(random, answer.shares); }
void fill(RandomEntries&, sched::HandoffPlan&) {}
void fill(RandomEntries& random, sched::StepDecision& answer) {
  for (std::uint64_t n = random.below(4); n > 0; --n)
    answer.decodes.push_back(static_cast<std::uint32_t>(random.below(8)));
  fill(random, answer.slices);
}

void fill(RandomEntries& random, sched::OverlapPlan& answer) {
  answer = {random.one_in(2), random.count(9), random.one_in(2)};
}

void fill(RandomEntries& random, sched::ExpertLayout& answer) {
  for (std::uint64_t n = random.below(4); n > 0; --n) {
    sched::ExpertLayerPlan layer;
    for (std::uint64_t slots = random.below(9); slots > 0; --slots)
      layer.slots.push_back(static_cast<std::int32_t>(random.below(12)) - 1);
    layer.change = static_cast<sched::LayerChange>(random.below(5));
    layer.moves = random.count(9);
    layer.imbalance_millionths = random.count(2'000'000);
    answer.layers.push_back(std::move(layer));
  }
  answer.moves = random.count(90);
}

template <class Question>
sched::Asked asked(RandomEntries& random) {
  auto made = std::make_shared<sched::AskedOf<Question>>();
  made->question = random.question<Question>();
  if (!random.one_in(4)) {
    typename Question::Answer answer{};
    fill(random, answer);
    made->answer.value = std::move(answer);
  }
  made->answer.reason = static_cast<sched::Reason>(
      random.below(static_cast<std::uint64_t>(sched::Reason::replaced_invalid) + 1));
  made->answer.retry_at_us = random.count(90'000);
  made->policy = random.text(9);
  made->canary = random.one_in(2);
  made->has_state = random.one_in(2);
  made->gap = random.one_in(2);
  made->state = random.text(90);
  return sched::AskedPtr<Question>(std::move(made));
}

sched::Asked any_asked(RandomEntries& random, std::uint64_t kind) {
  switch (kind % 9) {
  case 0:
    return asked<sched::AdmissionQuestion>(random);
  case 1:
    return asked<sched::QueueQuestion>(random);
  case 2:
    return asked<sched::RouterQuestion>(random);
  case 3:
    return asked<sched::ChunkerQuestion>(random);
  case 4:
    return asked<sched::HandoffQuestion>(random);
  case 5:
    return asked<sched::BalancerQuestion>(random);
  case 6:
    return asked<sched::StepQuestion>(random);
  case 7:
    return asked<sched::OverlapQuestion>(random);
  default:
    return asked<sched::ExpertQuestion>(random);
  }
}

sched::Record record(RandomEntries& random, std::uint64_t kind) {
  sched::Record out;
  out.policy = random.text(12);
  out.epoch = PolicyEpoch{random.below(90)};
  out.ref = random.ref();
  out.rank = random.rank_ref();
  out.reason = static_cast<sched::Reason>(random.below(20));
  out.value = random.count(900);
  out.view_age_us = random.count(900);
  out.too_large = random.one_in(5);
  if (!random.one_in(6)) out.asked = any_asked(random, kind);
  out.kind = !out.asked || random.one_in(5) ? fmt::format("k{}", random.text(9))
                                            : std::string(kind_of(*out.asked));
  if (out.asked && random.one_in(2)) {
    const auto scores = scores_of(*out.asked);
    for (const sched::RankView& rank : ranks_of(*out.asked)) {
      const std::size_t at = out.candidates.size();
      out.candidates.push_back(
          {rank.rank.rank, at < scores.size() ? scores[at] : 0, random.one_in(2)});
    }
  } else {
    for (std::uint64_t n = random.below(4); n > 0; --n)
      out.candidates.push_back({random.rank_ref().rank, random.count(9), random.one_in(2)});
  }
  return out;
}

sched::PolicySpec spec(RandomEntries& random) {
  sched::PolicySpec out{random.text(9), OptionTable(random.text(9))};
  out.options.set("flag", {random.one_in(2), random.text(9)});
  out.options.set("whole", {random.count(9), random.text(9)});
  out.options.set("real", {0.1 * static_cast<double>(random.below(90)), "f.toml:3"});
  out.options.set("text", {random.text(9), {}});
  return out;
}

sched::SetLive set_live(RandomEntries& random) {
  sched::SetLive out;
  out.set.epoch = PolicyEpoch{random.below(90)};
  out.set.name = random.text(9);
  out.set.text = random.text(90);
  out.set.file = random.text(9);
  out.set.kinds["queue"] = spec(random);
  out.set.kinds["step"] = spec(random);
  out.set.shadow["queue"] = spec(random);
  out.set.canary["handoff"] = spec(random);
  out.set.canary_permille = random.count(1'000);
  out.set.libraries = {{random.text(9), random.text(9), random.one_in(2), random.count(9), 7}};
  out.set.probation = {random.count(9), random.count(9), random.count(9),
                       random.count(9), random.count(9), random.count(9)};
  out.how = static_cast<sched::SwapCause>(random.below(4));
  out.reason = random.text(30);
  return out;
}

LedgerEntry entry(RandomEntries& random, std::uint64_t number) {
  LedgerEntry out;
  out.number = number;
  out.at_us = random.count(90'000'000);
  out.stage = {static_cast<sched::StageKind>(random.below(4)), random.rank_ref()};
  switch (number % 14) {
  case 13:
    out.what = sched::Observed{
        {random.context(), random.request(), static_cast<sched::QueueEvent>(random.below(4))},
        PolicyEpoch{random.below(9)}};
    break;
  case 8:
    out.what = sched::Milestone{random.ref(), static_cast<sched::Phase>(random.below(8)),
                                random.rank_ref(), random.count(9), random.text(20)};
    break;
  case 9:
    out.what = sched::Finish{
        random.ref().request, ErrorCode::preempted, sched::EndReason::length, random.text(30), 3,
        random.count(9),      random.count(9),      random.count(9),          random.count(9)};
    break;
  case 10:
    out.what = set_live(random);
    break;
  case 11:
    out.what = sched::RequestNamed{random.ref().request, random.text(30)};
    break;
  case 12:
    out.what = sched::RankChange{random.rank_ref(), static_cast<sched::Role>(random.below(3)),
                                 random.text(12), random.one_in(2)};
    break;
  default:
    out.what = record(random, number);
  }
  return out;
}

/// What the JSON text leaves out.
void expect_same_asked(const LedgerEntry& a, const LedgerEntry& b) {
  const auto* left = std::get_if<sched::Record>(&a.what);
  const auto* right = std::get_if<sched::Record>(&b.what);
  if (left == nullptr || !left->asked) return;
  ASSERT_TRUE(right != nullptr && right->asked);
  ASSERT_EQ(left->asked->index(), right->asked->index());
  std::visit(
      [&](const auto& one) {
        using Ptr = std::decay_t<decltype(one)>;
        const auto& other = std::get<Ptr>(*right->asked);
        EXPECT_TRUE(one->question == other->question);
        EXPECT_TRUE(one->answer == other->answer);
        EXPECT_EQ(one->policy, other->policy);
        EXPECT_EQ(one->state, other->state);
      },
      *left->asked);
}

TEST(LedgerCodec, EntriesOfEveryKindSurviveWhole) {
  LedgerEncoder encoder;
  LedgerDecoder decoder;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    RandomEntries random(seed, seed % 2 == 0);
    for (std::uint64_t number = 0; number < 24; ++number) {
      const LedgerEntry before = entry(random, number);
      std::string bytes = "x"; // Encoding appends.
      encoder.encode(before, bytes);
      const auto after = decoder.decode(std::string_view(bytes).substr(1));
      ASSERT_TRUE(after.ok()) << number << ": " << after.error().message;
      ASSERT_EQ(entry_json(before), entry_json(*after)) << number;
      expect_same_asked(before, *after);
      const auto* live = std::get_if<sched::SetLive>(&before.what);
      if (live == nullptr) continue;
      ASSERT_EQ(encode(*live), encode(std::get<sched::SetLive>(after->what)));
    }
  }
}

TEST(LedgerCodec, OptionsKeepTypePlaceAndBits) {
  RandomEntries random(5, false);
  LedgerEncoder encoder;
  LedgerDecoder decoder;
  LedgerEntry before;
  before.what = set_live(random);
  std::string bytes;
  encoder.encode(before, bytes);
  const auto after = decoder.decode(bytes);
  ASSERT_TRUE(after.ok());
  const auto& want = std::get<sched::SetLive>(before.what).set.kinds.at("queue").options;
  const auto& got = std::get<sched::SetLive>(after->what).set.kinds.at("queue").options;
  EXPECT_EQ(want.name(), got.name());
  ASSERT_EQ(want.values().size(), got.values().size());
  for (const auto& [key, value] : want.values()) {
    EXPECT_EQ(value.value, got.values().at(key).value) << key;
    EXPECT_EQ(value.where, got.values().at(key).where) << key;
  }
}

TEST(LedgerCodec, ZerosAndEqualRowsCostNothing) {
  LedgerEncoder encoder;
  LedgerEntry one;
  std::string empty;
  one.what = sched::Record{};
  encoder.encode(one, empty);
  EXPECT_LE(empty.size(), 4U);

  RandomEntries random(3, false);
  auto asked = std::make_shared<sched::AskedOf<sched::QueueQuestion>>();
  asked->question.waiting.assign(200, random.request());
  for (std::uint32_t i = 0; i < 200; ++i) {
    asked->question.waiting[i].ref.request = RequestId{2'000 + i};
    asked->answer.value = sched::Order{};
  }
  for (std::uint32_t i = 0; i < 200; ++i)
    asked->answer.value->positions.push_back(i);
  sched::Record record;
  record.asked = sched::AskedPtr<sched::QueueQuestion>(std::move(asked));
  one.what = std::move(record);
  std::string many;
  encoder.encode(one, many);
  EXPECT_LE(many.size(), 200U * 2 + 200U) << "two bytes a request, and the rest once";
}

TEST(LedgerCodec, BytesThatContradictThemselvesAreErrors) {
  LedgerEncoder encoder;
  LedgerDecoder decoder;
  RandomEntries random(11, true);
  std::int64_t refused = 0;
  std::int64_t read = 0;
  for (std::uint64_t number = 0; number < 2'400; ++number) {
    std::string bytes;
    encoder.encode(entry(random, number), bytes);
    bytes[random.below(bytes.size())] ^= static_cast<char>(1U << random.below(8));
    bytes.resize(bytes.size() - random.below(2));
    decoder.decode(bytes).ok() ? ++read : ++refused; // Neither crashes nor hangs.
  }
  EXPECT_GT(refused, 100);
  EXPECT_GT(read, 100);
}

} // namespace
} // namespace troupe::actors
