#include "actors/records/ledger_codec.hpp"

#include "actors/records/asked_codec.hpp"
#include "actors/records/event_codec.hpp"
#include "actors/records/ledger.pb.h"
#include "actors/records/set_codec.hpp"

#include <algorithm>
#include <utility>

namespace troupe::actors {

namespace {

RequestRef ref_of(std::uint64_t request, std::uint32_t attempt) {
  return {RequestId{request}, Attempt{attempt}};
}

RankRef rank_of(std::uint32_t rank, std::uint32_t incarnation) {
  return {RankId{rank}, Incarnation{incarnation}};
}

template <class Message>
void put_ref(const RequestRef& ref, Message& out) {
  out.set_request(raw(ref.request));
  out.set_attempt(raw(ref.attempt));
}

template <class Message>
void put_rank(const RankRef& rank, Message& out) {
  out.set_rank(raw(rank.rank));
  out.set_incarnation(raw(rank.incarnation));
}

Error contradiction(const char* what) {
  return {ErrorCode::parse_error, std::string(what) + " that contradicts itself"};
}

// -- decisions -----------------------------------------------------------------------------------

/// Candidates mostly repeat the ranks of the question and the scores of the answer.
void put_candidates(const sched::Record& record, records::LedgerRecord& out) {
  const auto& list = record.candidates;
  out.set_candidates(static_cast<std::uint32_t>(list.size()));
  if (list.empty()) return;
  const auto ranks = record.asked ? ranks_of(*record.asked) : std::span<const sched::RankView>{};
  const auto scores = record.asked ? scores_of(*record.asked) : std::span<const std::int64_t>{};
  bool as_ranks = ranks.size() == list.size();
  bool as_answer = scores.empty() || scores.size() == list.size();
  for (std::size_t i = 0; i < list.size(); ++i) {
    as_ranks = as_ranks && ranks[i].rank.rank == list[i].rank;
    as_answer = as_answer && list[i].score == (scores.empty() ? 0 : scores[i]);
  }
  out.set_candidates_as_ranks(as_ranks);
  out.set_scores_as_answer(as_answer);
  for (const sched::Candidate& one : list) {
    if (!as_ranks) out.add_candidate_rank(raw(one.rank));
    if (!as_answer) out.add_candidate_score(one.score);
  }
  if (std::all_of(list.begin(), list.end(), [](const auto& one) { return one.feasible; })) return;
  for (const sched::Candidate& one : list)
    out.add_candidate_infeasible(one.feasible ? 0 : 1);
}

bool take_candidates(const records::LedgerRecord& in, sched::Record& record) {
  const auto rows = static_cast<int>(in.candidates());
  const auto ranks = record.asked ? ranks_of(*record.asked) : std::span<const sched::RankView>{};
  const auto scores = record.asked ? scores_of(*record.asked) : std::span<const std::int64_t>{};
  const auto has_rows = [rows](int size) { return size == rows; };
  const int infeasible = in.candidate_infeasible_size();
  if (in.candidates_as_ranks() ? !has_rows(static_cast<int>(ranks.size()))
                               : !has_rows(in.candidate_rank_size()))
    return false;
  const auto answered = static_cast<int>(scores.size());
  if (in.scores_as_answer() ? answered != 0 && !has_rows(answered)
                            : !has_rows(in.candidate_score_size()))
    return false;
  if (infeasible != 0 && !has_rows(infeasible)) return false;
  for (int i = 0; i < rows; ++i) {
    const auto at = static_cast<std::size_t>(i);
    sched::Candidate one;
    one.rank = in.candidates_as_ranks() ? ranks[at].rank.rank : RankId{in.candidate_rank(i)};
    if (!in.scores_as_answer())
      one.score = in.candidate_score(i);
    else if (answered != 0)
      one.score = scores[at];
    one.feasible = infeasible == 0 || in.candidate_infeasible(i) == 0;
    record.candidates.push_back(one);
  }
  return true;
}

void put_record(const sched::Record& record, std::int64_t at_us, records::LedgerRecord& out) {
  if (!record.asked || record.kind != kind_of(*record.asked)) out.set_kind(record.kind);
  out.set_policy(record.policy);
  out.set_epoch(raw(record.epoch));
  put_ref(record.ref, out);
  put_rank(record.rank, out);
  out.set_reason(static_cast<std::uint32_t>(record.reason));
  out.set_value(record.value);
  out.set_view_age_us(record.view_age_us);
  out.set_too_large(record.too_large);
  put_candidates(record, out);
  if (record.asked) put(*record.asked, record.policy, at_us, *out.mutable_asked());
}

Result<sched::Record> take_record(records::LedgerRecord& in, std::int64_t at_us) {
  sched::Record record;
  if (in.reason() > static_cast<std::uint32_t>(sched::Reason::replaced_invalid))
    return contradiction("a decision");
  record.policy = in.policy();
  record.epoch = PolicyEpoch{in.epoch()};
  record.ref = ref_of(in.request(), in.attempt());
  record.rank = rank_of(in.rank(), in.incarnation());
  record.reason = static_cast<sched::Reason>(in.reason());
  record.value = in.value();
  record.view_age_us = in.view_age_us();
  record.too_large = in.too_large();
  if (in.has_asked()) {
    auto asked = take_asked(*in.mutable_asked(), record.policy, at_us);
    if (!asked.ok()) return asked.error();
    record.asked = std::move(*asked);
  }
  record.kind = in.kind().empty() && record.asked ? std::string(kind_of(*record.asked)) : in.kind();
  if (!take_candidates(in, record)) return contradiction("a decision");
  return record;
}

// -- the rest ------------------------------------------------------------------------------------

void put_milestone(const sched::Milestone& milestone, records::LedgerMilestone& out) {
  put_ref(milestone.ref, out);
  out.set_phase(static_cast<std::uint32_t>(milestone.phase));
  put_rank(milestone.rank, out);
  out.set_value(milestone.value);
  out.set_detail(milestone.detail);
}

Result<sched::Milestone> take_milestone(const records::LedgerMilestone& in) {
  if (in.phase() > static_cast<std::uint32_t>(sched::Phase::ended))
    return contradiction("a milestone");
  return sched::Milestone{ref_of(in.request(), in.attempt()), static_cast<sched::Phase>(in.phase()),
                          rank_of(in.rank(), in.incarnation()), in.value(), in.detail()};
}

void put_finish(const sched::Finish& finish, records::LedgerFinish& out) {
  out.set_request(raw(finish.request));
  out.set_code(static_cast<std::uint32_t>(finish.code));
  out.set_end(static_cast<std::uint32_t>(finish.end));
  out.set_detail(finish.detail);
  out.set_attempts(finish.attempts);
  out.set_arrival_us(finish.arrival_us);
  out.set_first_token_us(finish.first_token_us);
  out.set_end_us(finish.end_us);
  out.set_output_tokens(finish.output_tokens);
  out.set_preemptions(finish.preemptions);
}

Result<sched::Finish> take_finish(const records::LedgerFinish& in) {
  if (in.end() > static_cast<std::uint32_t>(sched::EndReason::length) || in.code() > 0xFFFF)
    return contradiction("an ending");
  return sched::Finish{RequestId{in.request()},
                       static_cast<ErrorCode>(in.code()),
                       static_cast<sched::EndReason>(in.end()),
                       in.detail(),
                       in.attempts(),
                       in.arrival_us(),
                       in.first_token_us(),
                       in.end_us(),
                       in.output_tokens(),
                       in.preemptions()};
}

void put_rank_change(const sched::RankChange& change, records::RankLife& out) {
  out.set_rank(raw(change.rank.rank));
  out.set_incarnation(raw(change.rank.incarnation));
  out.set_role(static_cast<std::uint32_t>(change.role));
  out.set_name(change.name);
  out.set_up(change.up);
}

Result<sched::RankChange> take_rank_change(const records::RankLife& in) {
  if (in.role() > static_cast<std::uint32_t>(sched::Role::both)) return contradiction("a rank");
  return sched::RankChange{rank_of(in.rank(), in.incarnation()),
                           static_cast<sched::Role>(in.role()), in.name(), in.up()};
}

// -- events of stages ----------------------------------------------------------------------------

void put_began(const sched::StageBegan& began, records::StageLife& out) {
  encode(began.options, *out.mutable_options());
  put({began.policies, sched::SwapCause::start, {}}, *out.mutable_set());
}

Result<sched::StageBegan> take_began(const records::StageLife& in) {
  auto options = decode_options(in.options());
  if (!options.ok()) return options.error();
  auto live = take_set(in.set());
  if (!live.ok()) return live.error();
  return sched::StageBegan{std::move(*options), std::move(live->set)};
}

void put_took(const sched::StageTook& took, records::StageEvent& out) {
  out.set_number(took.number);
  if (took.event) encode(*took.event, *out.mutable_event());
  out.mutable_effects()->Add(took.effects.begin(), took.effects.end());
}

Result<sched::StageTook> take_took(const records::StageEvent& in) {
  sched::StageTook took;
  took.number = in.number();
  took.effects.assign(in.effects().begin(), in.effects().end());
  if (in.event().empty()) return took;
  auto event = decode_event(in.event());
  if (!event.ok()) return event.error();
  took.event = std::make_shared<const sched::Event>(std::move(*event));
  return took;
}

template <class Value>
Status keep(Result<Value> value, sched::LedgerEntry& entry) {
  if (!value.ok()) return value.status();
  entry.what = std::move(*value);
  return {};
}

Status take_what(records::LedgerEntry& in, sched::LedgerEntry& entry) {
  if (in.has_record()) return keep(take_record(*in.mutable_record(), entry.at_us), entry);
  if (in.has_milestone()) return keep(take_milestone(in.milestone()), entry);
  if (in.has_finish()) return keep(take_finish(in.finish()), entry);
  if (in.has_set_live()) return keep(take_set(in.set_live()), entry);
  if (in.has_observed()) {
    auto seen = take_observation(*in.mutable_observed(), entry.at_us);
    if (!seen.ok()) return seen.status();
    entry.what = sched::Observed{std::move(*seen), PolicyEpoch{in.observed().epoch()}};
    return {};
  }
  if (in.has_named()) {
    entry.what = sched::RequestNamed{RequestId{in.named().request()}, in.named().custom_id()};
    return {};
  }
  if (in.has_rank_change()) return keep(take_rank_change(in.rank_change()), entry);
  if (in.has_took()) return keep(take_took(in.took()), entry);
  if (in.has_began()) return keep(take_began(in.began()), entry);
  return {ErrorCode::parse_error, "an entry of a kind that this version does not know"};
}

/// One overload a kind of entry.
struct PutWhat {
  std::int64_t at_us;
  records::LedgerEntry& out;

  void operator()(const sched::Record& what) const {
    put_record(what, at_us, *out.mutable_record());
  }
  void operator()(const sched::Observed& what) const {
    put(what.observation, at_us, *out.mutable_observed());
    out.mutable_observed()->set_epoch(raw(what.epoch));
  }
  void operator()(const sched::Milestone& what) const {
    put_milestone(what, *out.mutable_milestone());
  }
  void operator()(const sched::Finish& what) const { put_finish(what, *out.mutable_finish()); }
  void operator()(const sched::SetLive& what) const { put(what, *out.mutable_set_live()); }
  void operator()(const sched::RequestNamed& what) const {
    out.mutable_named()->set_request(raw(what.request));
    out.mutable_named()->set_custom_id(what.custom_id);
  }
  void operator()(const sched::RankChange& what) const {
    put_rank_change(what, *out.mutable_rank_change());
  }
  void operator()(const sched::StageBegan& what) const { put_began(what, *out.mutable_began()); }
  void operator()(const sched::StageTook& what) const { put_took(what, *out.mutable_took()); }
};

} // namespace

struct LedgerEncoder::State {
  records::LedgerEntry message;
};

LedgerEncoder::LedgerEncoder() : state_(std::make_unique<State>()) {}
LedgerEncoder::~LedgerEncoder() = default;

void LedgerEncoder::encode(const sched::LedgerEntry& entry, std::string& out) {
  records::LedgerEntry& message = state_->message;
  message.Clear();
  message.set_number(entry.number);
  message.set_at_us(entry.at_us);
  message.set_stage(static_cast<std::uint32_t>(entry.stage.kind));
  message.set_stage_rank(raw(entry.stage.rank.rank));
  message.set_stage_incarnation(raw(entry.stage.rank.incarnation));
  std::visit(PutWhat{entry.at_us, message}, entry.what);
  message.AppendToString(&out);
}

struct LedgerDecoder::State {
  records::LedgerEntry message;
};

LedgerDecoder::LedgerDecoder() : state_(std::make_unique<State>()) {}
LedgerDecoder::~LedgerDecoder() = default;
LedgerDecoder::LedgerDecoder(LedgerDecoder&&) noexcept = default;
LedgerDecoder& LedgerDecoder::operator=(LedgerDecoder&&) noexcept = default;

Result<sched::LedgerEntry> LedgerDecoder::decode(std::string_view bytes) {
  records::LedgerEntry& message = state_->message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return Error{ErrorCode::parse_error, "bytes that are no ledger entry"};
  if (message.stage() > static_cast<std::uint32_t>(sched::StageKind::experts))
    return Error{ErrorCode::parse_error, "an entry of an unknown stage"};
  sched::LedgerEntry entry;
  entry.number = message.number();
  entry.at_us = message.at_us();
  entry.stage.kind = static_cast<sched::StageKind>(message.stage());
  entry.stage.rank = rank_of(message.stage_rank(), message.stage_incarnation());
  if (Status ok = take_what(message, entry); !ok.ok()) return ok.error();
  return entry;
}

std::string encode(const SegmentHead& head) {
  records::SegmentHead out;
  out.set_version(head.version);
  out.set_build(head.build);
  out.set_segment(head.segment);
  out.set_first_number(head.first_number);
  out.set_opened_unix_us(head.opened_unix_us);
  out.set_opened_at_us(head.opened_at_us);
  for (const sched::SetLive& live : head.live)
    put(live, *out.add_live());
  return out.SerializeAsString();
}

Result<SegmentHead> decode_segment_head(std::string_view bytes) {
  records::SegmentHead in;
  if (!in.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return Error{ErrorCode::parse_error, "bytes that are no head of a segment"};
  SegmentHead head{
      in.version(),      in.build(), in.segment(), in.first_number(), in.opened_unix_us(),
      in.opened_at_us(), {}};
  for (const records::LiveSet& live : in.live()) {
    auto set = take_set(live);
    if (!set.ok()) return set.error();
    head.live.push_back(std::move(*set));
  }
  return head;
}

std::string encode(const sched::SetLive& live) {
  records::LiveSet out;
  put(live, out);
  return out.SerializeAsString();
}

} // namespace troupe::actors
