// Durable records and messages keep every bit.

#include "actors/messages.hpp"
#include "actors/records/codec.hpp"

#include <caf/actor_system.hpp>
#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>
#include <gtest/gtest.h>

#include <limits>

namespace troupe::actors {
namespace {

SequenceLog sample_log() {
  SequenceLog log;
  log.work.prompt = {1, 2, 3};
  log.work.answered = {4};
  log.work.stop_ids = {5, 6};
  log.work.new_tokens_max = 77;
  log.work.sampling = {0x7F800000U, 0x7FC00001U, 9, 0xFFFFFFFFFFFFFFFFULL, -1, 3, true};
  log.drawn = {7, 8};
  return log;
}

TEST(Codec, SequenceLogRoundTrips) {
  const std::string bytes = encode(sample_log());
  auto back = decode_sequence_log(std::as_bytes(std::span<const char>(bytes)));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->work.prompt, sample_log().work.prompt);
  EXPECT_EQ(back->drawn, sample_log().drawn);
  EXPECT_EQ(back->work.sampling.temperature_bits, 0x7F800000U);
  EXPECT_EQ(back->work.sampling.top_p_bits, 0x7FC00001U);
  EXPECT_EQ(back->work.sampling.seed, 0xFFFFFFFFFFFFFFFFULL);
  EXPECT_EQ(back->work.sampling.top_logprobs, -1);
  EXPECT_TRUE(back->work.sampling.ignore_eos);
  EXPECT_EQ(encode(*back), bytes);
}

TEST(Codec, HandoffRoundTripsAndItsDigestSeesEveryRegion) {
  HandoffRecord record;
  record.address = "loop:1";
  record.manifest.model_identity = "abc";
  record.manifest.kv_format = "packed";
  record.manifest.layout_id = 3;
  record.manifest.block_tokens = 64;
  record.manifest.positions = 100;
  record.manifest.regions = {{10, {1, 2}}, {20, {3, 4}}};
  record.region_ids = {5, 6};
  record.log_region_id = 7;
  record.log = {30, {8, 9}};
  auto back = decode_handoff(encode(record));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->address, record.address);
  EXPECT_EQ(back->region_ids, record.region_ids);
  EXPECT_EQ(back->manifest.regions[1].digest, record.manifest.regions[1].digest);
  EXPECT_EQ(digest_of(*back), digest_of(record));
  back->manifest.regions[1].digest.low ^= 1;
  EXPECT_NE(digest_of(*back), digest_of(record));
}

TEST(Codec, RubbishIsAnErrorNotACrash) {
  EXPECT_FALSE(decode_handoff("\xFF\xFF not a record").ok());
  const auto other = decode_handoff("");
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().code, ErrorCode::mismatch);
}

TEST(Messages, BitsOfInfinityTravelAsIntegers) {
  caf::actor_system_config config;
  config.add_message_types<caf::id_block::troupe>();
  caf::actor_system system(config);
  sched::Tokens sent{{RankId{1}, Incarnation{2}}, 3, {}};
  sched::TokenRow row;
  row.ref = {RequestId{std::numeric_limits<std::uint64_t>::max()}, Attempt{4}};
  row.logprob_bits = 0xFF800000U; // -infinity
  row.top_tokens = {5};
  row.top_logprob_bits = {0x7FC00000U}; // NaN
  row.end = sched::EndReason::stop_id;
  sent.rows = {row};
  caf::binary_serializer::container_type buffer;
  caf::binary_serializer out(system, buffer);
  ASSERT_FALSE(out(sent));
  sched::Tokens got;
  caf::binary_deserializer in(system, buffer);
  ASSERT_FALSE(in(got));
  ASSERT_EQ(got.rows.size(), 1U);
  EXPECT_EQ(got.rows[0].ref, row.ref);
  EXPECT_EQ(got.rows[0].logprob_bits, row.logprob_bits);
  EXPECT_EQ(got.rows[0].top_logprob_bits, row.top_logprob_bits);
  EXPECT_EQ(got.rows[0].end, row.end);
}

} // namespace
} // namespace troupe::actors
