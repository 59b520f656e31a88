// Figures of a report from outcomes built by hand.

#include "schedulers/sim/report.hpp"

#include <gtest/gtest.h>

namespace troupe::sim {
namespace {

Outcome ended(ErrorCode code, std::int64_t arrival_us, std::int64_t first_us, std::int64_t end_us,
              std::int64_t tokens) {
  Outcome outcome;
  outcome.plan.prompt = 10;
  sched::Finish finish;
  finish.code = code;
  finish.arrival_us = arrival_us;
  finish.first_token_us = first_us;
  finish.end_us = end_us;
  finish.output_tokens = tokens;
  outcome.endings.push_back(finish);
  return outcome;
}

TEST(Report, QuantilesAreNearestRanks) {
  std::vector<std::int64_t> values;
  for (std::int64_t i = 100; i >= 1; --i)
    values.push_back(i);
  const Quantiles q = quantiles_of(values);
  EXPECT_EQ(q, (Quantiles{100, 50, 95, 99, 100}));
  std::vector<std::int64_t> one = {7};
  EXPECT_EQ(quantiles_of(one), (Quantiles{1, 7, 7, 7, 7}));
  std::vector<std::int64_t> none;
  EXPECT_EQ(quantiles_of(none), Quantiles{});
}

// Two requests end ok, one meets the targets; times count from arrival.
TEST(Report, CountsTimesAndGoodput) {
  const std::vector<Outcome> outcomes = {ended(ErrorCode::ok, 100, 300, 1300, 11),
                                         ended(ErrorCode::ok, 200, 1'200, 5'200, 5),
                                         ended(ErrorCode::rejected, 400, 0, 500, 0), Outcome{}};
  Report report;
  add_outcomes(report, outcomes, {500, 0});
  EXPECT_EQ(report.requests, 4);
  EXPECT_EQ(report.unfinished, 1);
  EXPECT_EQ(report.ended(ErrorCode::ok), 2);
  EXPECT_EQ(report.ended(ErrorCode::rejected), 1);
  EXPECT_EQ(report.ttft_us, (Quantiles{2, 200, 1000, 1000, 1000}));
  EXPECT_EQ(report.tpot_us, (Quantiles{2, 100, 1000, 1000, 1000}));
  EXPECT_EQ(report.e2e_us.highest, 5000);
  EXPECT_EQ(report.good, 1);
  EXPECT_EQ(report.span_us, 5'100);
  EXPECT_EQ(report.goodput_milli(), 196'078);
  EXPECT_EQ(report.tokens_out, 16);
}

TEST(Report, KvUseIsAMeanOverTime) {
  Tally tally;
  tally.kv_blocks_total = 10;
  tally.hold(5);
  tally.pass(100);
  tally.hold(-5);
  tally.pass(200);
  tally.decision("queue", "fcfs", sched::Reason::in_order);
  tally.decision("queue", "fcfs", sched::Reason::in_order);
  Report report;
  add_tally(report, tally);
  EXPECT_EQ(report.kv_use_permille, 250);
  EXPECT_EQ(report.kv_peak_permille, 500);
  ASSERT_EQ(report.decisions.size(), 1U);
  EXPECT_EQ(report.decisions[0].count, 2);
  const std::string text = report_text(report);
  EXPECT_NE(text.find("queue fcfs in_order 2\n"), std::string::npos) << text;
}

} // namespace
} // namespace troupe::sim
