#include "actors/records/codec.hpp"

#include "actors/records/handoff.pb.h"

namespace troupe::actors {

namespace {

constexpr std::uint32_t kHandoffVersion = 1;

void put(const engine::RegionFacts& facts, std::uint64_t id, records::Region& out) {
  out.set_id(id);
  out.set_bytes(facts.bytes);
  out.set_digest_high(facts.digest.high);
  out.set_digest_low(facts.digest.low);
}

engine::RegionFacts facts_of(const records::Region& region) {
  return {region.bytes(), {region.digest_high(), region.digest_low()}};
}

} // namespace

std::string encode(const HandoffRecord& record) {
  records::Handoff out;
  out.set_version(kHandoffVersion);
  out.set_address(record.address);
  out.set_model_identity(record.manifest.model_identity);
  out.set_kv_format(record.manifest.kv_format);
  out.set_layout_id(record.manifest.layout_id);
  out.set_block_tokens(record.manifest.block_tokens);
  out.set_positions(record.manifest.positions);
  out.set_cpu_path(record.manifest.cpu_path);
  for (std::size_t i = 0; i < record.manifest.regions.size(); ++i) {
    put(record.manifest.regions[i], record.region_ids[i], *out.add_regions());
  }
  put(record.log, record.log_region_id, *out.mutable_log());
  return out.SerializeAsString();
}

Result<HandoffRecord> decode_handoff(const std::string& bytes) {
  records::Handoff in;
  if (!in.ParseFromString(bytes)) {
    return Error{ErrorCode::parse_error, "a handoff record that is not one"};
  }
  if (in.version() != kHandoffVersion) {
    return Error{ErrorCode::mismatch, "handoff record of version " + std::to_string(in.version()) +
                                          ", expected " + std::to_string(kHandoffVersion) +
                                          ": run the same build on both ranks"};
  }
  HandoffRecord record;
  record.address = in.address();
  record.manifest.model_identity = in.model_identity();
  record.manifest.kv_format = in.kv_format();
  record.manifest.layout_id = in.layout_id();
  record.manifest.block_tokens = in.block_tokens();
  record.manifest.positions = in.positions();
  record.manifest.cpu_path = in.cpu_path();
  for (const auto& region : in.regions()) {
    record.manifest.regions.push_back(facts_of(region));
    record.region_ids.push_back(region.id());
  }
  record.log = facts_of(in.log());
  record.log_region_id = in.log().id();
  return record;
}

std::string encode(const SequenceLog& log) {
  records::SequenceLog out;
  const sched::Work& work = log.work;
  out.mutable_prompt()->Add(work.prompt.begin(), work.prompt.end());
  out.mutable_answered()->Add(work.answered.begin(), work.answered.end());
  out.mutable_drawn()->Add(log.drawn.begin(), log.drawn.end());
  out.mutable_stop_ids()->Add(work.stop_ids.begin(), work.stop_ids.end());
  out.set_new_tokens_max(work.new_tokens_max);
  out.set_temperature_bits(work.sampling.temperature_bits);
  out.set_top_p_bits(work.sampling.top_p_bits);
  out.set_top_k(work.sampling.top_k);
  out.set_seed(work.sampling.seed);
  out.set_top_logprobs(work.sampling.top_logprobs);
  out.set_new_tokens_min(work.sampling.new_tokens_min);
  out.set_ignore_eos(work.sampling.ignore_eos);
  return out.SerializeAsString();
}

Result<SequenceLog> decode_sequence_log(std::span<const std::byte> bytes) {
  records::SequenceLog in;
  if (!in.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Error{ErrorCode::parse_error, "a sequence log that is not one"};
  }
  SequenceLog log;
  sched::Work& work = log.work;
  work.prompt.assign(in.prompt().begin(), in.prompt().end());
  work.answered.assign(in.answered().begin(), in.answered().end());
  log.drawn.assign(in.drawn().begin(), in.drawn().end());
  work.stop_ids.assign(in.stop_ids().begin(), in.stop_ids().end());
  work.new_tokens_max = in.new_tokens_max();
  work.sampling.temperature_bits = in.temperature_bits();
  work.sampling.top_p_bits = in.top_p_bits();
  work.sampling.top_k = in.top_k();
  work.sampling.seed = in.seed();
  work.sampling.top_logprobs = in.top_logprobs();
  work.sampling.new_tokens_min = in.new_tokens_min();
  work.sampling.ignore_eos = in.ignore_eos();
  return log;
}

Digest digest_of(const HandoffRecord& record) {
  std::vector<std::uint64_t> words;
  for (const engine::RegionFacts& region : record.manifest.regions) {
    words.push_back(region.digest.high);
    words.push_back(region.digest.low);
  }
  words.push_back(record.log.digest.high);
  words.push_back(record.log.digest.low);
  return digest_of(std::as_bytes(std::span<const std::uint64_t>(words)));
}

} // namespace troupe::actors
