// Goal: `troupe explain --connect` tells of a request that still runs what happened so far, and
// nothing else.
// Method: a real process on the null device whose answers take minutes; it is asked as a person
// would ask, twice, and once more when it has ended.

#include "tests/support/batch_folder.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <csignal>
#include <memory>

namespace troupe::test {
namespace {

using Json = nlohmann::json;

class ExplainCommand : public testing::Test {
protected:
  void TearDown() override { stop(); }

  /// A job of eight answers of minutes, of which two decode at a time at most.
  void start(const std::vector<std::string>& more = {}) {
    job_.write_input(BatchFolder::completions(8, 100'000));
    job_.use_null_device();
    for (const char* set : {"cost_model.null_speed=20.0", "limits.inflight_max=6",
                            "limits.sequences_max=2", "limits.stop_grace_s=1"}) {
      job_.flags.emplace_back("--set");
      job_.flags.emplace_back(set);
    }
    ProcessOptions options = job_.command(more);
    std::erase(options.arguments, "--quiet");
    process_ = std::make_unique<TroupeProcess>(options);
    ASSERT_TRUE(process_->wait_for_error_text("control socket: ")) << process_->wait().err;
  }
  void stop() {
    if (!process_) return;
    process_->signal(SIGINT);
    process_->signal(SIGINT);
    process_->wait();
    process_.reset();
  }

  ProcessEnd explain(std::vector<std::string> words) const {
    words.insert(words.begin(), "explain");
    return TroupeProcess({words, job_.files.path(""), -1, {}}).wait();
  }
  /// The story of a request, as soon as its last span is in this phase.
  Json story_in_phase(const std::string& who, const std::string& phase) const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{120};
    for (;;) {
      const ProcessEnd end = explain({who, "--connect", kSocket, "--json"});
      const Json story = Json::parse(end.out, nullptr, false);
      const bool is_there = end.code == 0 && story.is_object() && !story["spans"].empty() &&
                            story["spans"].back()["phase"] == phase;
      if (is_there) return story;
      if (std::chrono::steady_clock::now() > deadline) {
        ADD_FAILURE() << "never " << phase << ": " << end.out << end.err;
        return story;
      }
    }
  }

  static constexpr const char* kSocket = "out.jsonl.sock";
  BatchFolder job_;
  std::unique_ptr<TroupeProcess> process_;
};

/// Spans follow each other from 0 to the latency.
void expect_whole(const Json& story) {
  std::int64_t told_us = 0;
  for (const Json& span : story["spans"]) {
    EXPECT_EQ(span["from_us"], told_us) << story;
    EXPECT_FALSE(span["why"].get<std::string>().empty()) << story;
    told_us = span["to_us"];
  }
  EXPECT_EQ(story["latency_us"], told_us) << story;
}

TEST_F(ExplainCommand, ARunningJobTellsWhatHappenedSoFar) {
  start();
  const Json first = story_in_phase("r0", "decoding");
  EXPECT_EQ(first["running"], true);
  EXPECT_EQ(first["ended"], false);
  EXPECT_TRUE(first["code"].is_null());
  EXPECT_EQ(first["missing_entries"], 0);
  expect_whole(first);

  const Json later = story_in_phase("r0", "decoding");
  expect_whole(later);
  EXPECT_GT(later["latency_us"], first["latency_us"]) << "time goes on without an entry of it";
  ASSERT_EQ(later["spans"].size(), first["spans"].size());
  for (std::size_t i = 0; i + 1 < first["spans"].size(); ++i)
    EXPECT_EQ(later["spans"][i], first["spans"][i]) << "what is over stays as it was";
  EXPECT_EQ(later["spans"].back()["from_us"], first["spans"].back()["from_us"]);
  EXPECT_EQ(later["decisions"], first["decisions"]);

  // Two slots on either rank: one or two of the six lines in work decode, two hold their prefill.
  expect_whole(story_in_phase("r2", "waits_for_room"));
  expect_whole(story_in_phase("r5", "waits_for_rank"));
  const ProcessEnd words = explain({"r0"}); // The one socket of this folder.
  EXPECT_EQ(words.code, 0) << words.err;
  EXPECT_EQ(words.err, "");
  EXPECT_NE(words.out.find("(r0): runs, "), std::string::npos) << words.out;
  EXPECT_NE(words.out.find(" so far\n"), std::string::npos) << words.out;
  EXPECT_NE(words.out.find("decoding on decode-0"), std::string::npos) << words.out;
  EXPECT_NE(explain({"r0", "--why-not", "decode-0"}).out.find("it was chosen"), std::string::npos);

  stop();
  const ProcessEnd ended = explain({"r0", "--ledger", "out.jsonl.ledger", "--json"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  const Json story = Json::parse(ended.out);
  EXPECT_EQ(story["running"], false);
  ASSERT_GE(story["spans"].size(), first["spans"].size());
  for (std::size_t i = 0; i + 1 < first["spans"].size(); ++i)
    EXPECT_EQ(story["spans"][i], first["spans"][i]);
}

TEST_F(ExplainCommand, WhatCannotBeToldSaysWhy) {
  start();
  const ProcessEnd unknown = explain({"r99", "--connect", kSocket});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_EQ(unknown.out, "");
  EXPECT_NE(unknown.err.find("\"r99\""), std::string::npos) << unknown.err;
  EXPECT_NE(unknown.err.find("from when it is taken up"), std::string::npos) << unknown.err;
  const ProcessEnd both = explain({"r0", "--connect", kSocket, "--ledger", "out.jsonl.ledger"});
  EXPECT_EQ(both.code, 2) << "one of them: " << both.err;
  stop();
  const ProcessEnd gone = explain({"r0", "--connect", kSocket});
  EXPECT_EQ(gone.code, 1);
  EXPECT_NE(gone.err.find("--ledger DIR"), std::string::npos) << gone.err;
  EXPECT_EQ(explain({"r0"}).code, 2);
}

TEST_F(ExplainCommand, AJobWithoutALedgerSaysSo) {
  start({"--set", "ledger.level=\"off\""});
  const ProcessEnd end = explain({"r0", "--connect", kSocket});
  EXPECT_EQ(end.code, 1);
  EXPECT_NE(end.err.find("keeps no ledger: ledger.level is \"off\""), std::string::npos) << end.err;
}

} // namespace
} // namespace troupe::test
