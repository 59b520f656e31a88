#include "schedulers/sim/report.hpp"

#include "schedulers/core/hex.hpp"

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <string_view>
#include <tuple>

namespace troupe::sim {

namespace {

std::string hex(std::uint64_t value) {
  std::string out;
  append_hex(value, 16, out);
  return out;
}

std::string join(std::initializer_list<std::string_view> parts) {
  std::string out;
  for (const std::string_view part : parts)
    out.append(part);
  return out;
}

std::string number(std::int64_t value) { return std::to_string(value); }

std::string thousandths(std::int64_t value) {
  const std::string part = number(value % 1000);
  return join({number(value / 1000), ".", std::string(3 - part.size(), '0'), part});
}

std::string quantiles_text(const Quantiles& q) {
  return join({"p50 ", number(q.p50), "  p95 ", number(q.p95), "  p99 ", number(q.p99), "  max ",
               number(q.highest), "  of ", number(q.count)});
}

std::string quantiles_json(const char* name, const Quantiles& q) {
  return join({",\"", name, "\":{\"count\":", number(q.count), ",\"p50\":", number(q.p50),
               ",\"p95\":", number(q.p95), ",\"p99\":", number(q.p99),
               ",\"max\":", number(q.highest), "}"});
}

std::string field(const char* name, std::int64_t value) {
  return join({",\"", name, "\":", number(value)});
}

std::string line(std::string name, std::initializer_list<std::string_view> parts) {
  constexpr std::size_t kColumn = 20;
  name.resize(std::max(kColumn, name.size() + 1), ' ');
  return join({name, join(parts), "\n"});
}

} // namespace

Quantiles quantiles_of(std::vector<std::int64_t>& values) {
  Quantiles out;
  if (values.empty()) return out;
  std::sort(values.begin(), values.end());
  const auto at = [&](std::size_t permille) {
    const std::size_t rank = (values.size() * permille + 999) / 1000;
    return values[std::max<std::size_t>(rank, 1) - 1];
  };
  out = {static_cast<std::int64_t>(values.size()), at(500), at(950), at(990), values.back()};
  return out;
}

void Tally::decision(const std::string& kind, const std::string& policy, sched::Reason reason) {
  const auto found = std::find_if(decisions.begin(), decisions.end(), [&](const Decisions& one) {
    return one.kind == kind && one.policy == policy;
  });
  Decisions& of = found != decisions.end() ? *found : decisions.emplace_back();
  if (found == decisions.end() || of.kind.empty()) {
    of.kind = kind;
    of.policy = policy;
  }
  ++of.by_reason[static_cast<std::size_t>(reason) % kReasons];
}

void Tally::pass(std::int64_t now_us) {
  kv_block_us += static_cast<Wide>(kv_blocks_held) * static_cast<std::uint64_t>(now_us - last_us);
  last_us = now_us;
}

void Tally::hold(std::int64_t change) {
  kv_blocks_held += change;
  kv_blocks_peak = std::max(kv_blocks_peak, kv_blocks_held);
}

std::int64_t Report::ended(ErrorCode code) const noexcept {
  for (const auto& [which, count] : endings) {
    if (which == code) return count;
  }
  return 0;
}

std::int64_t Report::goodput_milli() const noexcept {
  if (span_us <= 0) return 0;
  return static_cast<std::int64_t>(static_cast<Wide>(good) * 1'000'000'000U /
                                   static_cast<std::uint64_t>(span_us));
}

void add_outcomes(Report& report, const std::vector<Outcome>& outcomes, const Targets& targets) {
  std::vector<std::int64_t> ttft;
  std::vector<std::int64_t> tpot;
  std::vector<std::int64_t> e2e;
  std::vector<ErrorCode> codes;
  std::int64_t first_us = -1;
  std::int64_t last_us = 0;
  report.requests = static_cast<std::int64_t>(outcomes.size());
  for (const Outcome& outcome : outcomes) {
    if (!outcome.ended()) {
      ++report.unfinished;
      continue;
    }
    const sched::Finish& end = outcome.endings.front();
    codes.push_back(end.code);
    report.retried += end.attempts - 1;
    first_us = first_us < 0 ? end.arrival_us : std::min(first_us, end.arrival_us);
    last_us = std::max(last_us, end.end_us);
    if (end.code != ErrorCode::ok) continue;
    report.tokens_in += outcome.plan.prompt;
    report.tokens_out += end.output_tokens;
    e2e.push_back(end.end_us - end.arrival_us);
    if (end.output_tokens < 1) continue;
    const std::int64_t first = end.first_token_us - end.arrival_us;
    const std::int64_t gaps = end.output_tokens - 1;
    const std::int64_t gap = gaps > 0 ? (end.end_us - end.first_token_us) / gaps : 0;
    ttft.push_back(first);
    if (gaps > 0) tpot.push_back(gap);
    const bool good = (targets.ttft_us <= 0 || first <= targets.ttft_us) &&
                      (targets.tpot_us <= 0 || gap <= targets.tpot_us);
    report.good += good ? 1 : 0;
  }
  report.span_us = first_us < 0 ? 0 : last_us - first_us;
  report.ttft_us = quantiles_of(ttft);
  report.tpot_us = quantiles_of(tpot);
  report.e2e_us = quantiles_of(e2e);
  std::sort(codes.begin(), codes.end());
  for (const ErrorCode code : codes) {
    if (report.endings.empty() || report.endings.back().first != code) {
      report.endings.emplace_back(code, 0);
    }
    ++report.endings.back().second;
  }
}

void add_tally(Report& report, const Tally& tally) {
  for (const Tally::Decisions& of : tally.decisions) {
    for (std::size_t i = 0; i < of.by_reason.size(); ++i) {
      if (of.by_reason[i] == 0) continue;
      report.decisions.push_back(
          {of.kind, of.policy, static_cast<sched::Reason>(i), of.by_reason[i]});
    }
  }
  std::sort(report.decisions.begin(), report.decisions.end(),
            [](const DecisionCount& a, const DecisionCount& b) {
              return std::tie(a.kind, a.policy, a.reason) < std::tie(b.kind, b.policy, b.reason);
            });
  if (tally.kv_blocks_total <= 0) return;
  const auto total = static_cast<std::uint64_t>(tally.kv_blocks_total);
  report.kv_peak_permille = tally.kv_blocks_peak * 1000 / tally.kv_blocks_total;
  if (tally.last_us > 0) {
    report.kv_use_permille = static_cast<std::int64_t>(tally.kv_block_us * 1000U / total /
                                                       static_cast<std::uint64_t>(tally.last_us));
  }
}

std::string report_text(const Report& report) {
  std::string out = line("seed", {std::to_string(report.seed)});
  std::string endings = number(report.requests);
  for (const auto& [code, count] : report.endings)
    endings.append(join({"  ", error_name(code), " ", number(count)}));
  if (report.unfinished > 0) endings.append(join({"  unfinished ", number(report.unfinished)}));
  out += line("requests", {endings});
  out += line("tokens", {"in ", number(report.tokens_in), "  out ", number(report.tokens_out)});
  out += line("ttft_us", {quantiles_text(report.ttft_us)});
  out += line("tpot_us", {quantiles_text(report.tpot_us)});
  out += line("e2e_us", {quantiles_text(report.e2e_us)});
  out += line("goodput", {thousandths(report.goodput_milli()), " requests/s  ", number(report.good),
                          " met the targets in ", number(report.span_us), " us"});
  out += line("kv_blocks", {"mean ", number(report.kv_use_permille), "  peak ",
                            number(report.kv_peak_permille), "  of 1000"});
  out += line("attempts",
              {"retried ", number(report.retried), "  preempted ", number(report.preempted)});
  out += line("handoffs", {number(report.handoffs), "  retried ", number(report.handoffs_retried),
                           "  in place ", number(report.in_place)});
  out +=
      line("dropped", {"stale ", number(report.stale_dropped), "  refused ", number(report.refused),
                       "  invalid decisions ", number(report.invalid_decisions)});
  out += line("messages", {number(report.messages), "  lost ", number(report.messages_lost)});
  out += line("events", {number(report.events)});
  out += line("faults", {number(report.faults)});
  for (const DecisionCount& one : report.decisions) {
    out += line("decisions", {one.kind, " ", one.policy, " ", sched::reason_name(one.reason), " ",
                              number(one.count)});
  }
  out += line("trace", {hex(report.trace_hash)});
  out += line("final_draw", {hex(report.final_draw)});
  return out;
}

std::string report_json(const Report& report) {
  std::string out = join({"{\"seed\":", std::to_string(report.seed),
                          field("requests", report.requests), ",\"endings\":{"});
  const char* comma = "";
  for (const auto& [code, count] : report.endings) {
    out += join({comma, "\"", error_name(code), "\":", number(count)});
    comma = ",";
  }
  out += join({"}",
               field("unfinished", report.unfinished),
               field("tokens_in", report.tokens_in),
               field("tokens_out", report.tokens_out),
               quantiles_json("ttft_us", report.ttft_us),
               quantiles_json("tpot_us", report.tpot_us),
               quantiles_json("e2e_us", report.e2e_us),
               ",\"goodput\":",
               thousandths(report.goodput_milli()),
               field("good", report.good),
               field("span_us", report.span_us),
               field("kv_use_permille", report.kv_use_permille),
               field("kv_peak_permille", report.kv_peak_permille),
               field("retried", report.retried),
               field("preempted", report.preempted),
               field("handoffs", report.handoffs),
               field("handoffs_retried", report.handoffs_retried),
               field("in_place", report.in_place),
               field("stale_dropped", report.stale_dropped),
               field("refused", report.refused),
               field("invalid_decisions", report.invalid_decisions),
               field("messages", report.messages),
               field("messages_lost", report.messages_lost),
               field("events", report.events),
               field("faults", report.faults),
               ",\"decisions\":["});
  comma = "";
  for (const DecisionCount& one : report.decisions) {
    out +=
        join({comma, "{\"kind\":\"", one.kind, "\",\"policy\":\"", one.policy, "\",\"reason\":\"",
              sched::reason_name(one.reason), "\"", field("count", one.count), "}"});
    comma = ",";
  }
  return out + join({"],\"trace\":\"", hex(report.trace_hash), "\",\"final_draw\":\"",
                     hex(report.final_draw), "\"}"});
}

} // namespace troupe::sim
