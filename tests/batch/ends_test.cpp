// Goal: a job ends when its last answer is there, and never as a success when it is not done.
// Method: real processes on the null device: a journal that would like to wait for a minute, and a
// loaded policy that ends the process.

#include "tests/support/batch_folder.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>

namespace troupe::test {
namespace {

TEST(Ends, TheLastAnswersAreNotKeptBackForOthersToCome) {
  for (const char* inflight : {"2", "64"}) {
    BatchFolder job;
    job.use_null_device();
    job.write_input(BatchFolder::completions(6));
    const auto begin = std::chrono::steady_clock::now();
    const ProcessEnd end = job.run({"--set", "journal.flush_ms=60000", "--set",
                                    fmt::format("limits.inflight_max={}", inflight)});
    EXPECT_EQ(end.code, 0) << end.err;
    EXPECT_EQ(job.answers().lines, 6);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds{60})
        << "it waited for a flush that nothing could come before";
  }
}

TEST(Ends, ALibraryThatCallsExitMakesNoSuccessOfAnUnfinishedJob) {
  for (const char* isolation : {"lane", "none"}) {
    BatchFolder job;
    job.use_null_device();
    job.write_input(BatchFolder::completions(2'000));
    job.files.write("set.toml", fmt::format("name = \"exits\"\n"
                                            "[[library]]\npath = \"{}/bad_policies.so\"\n"
                                            "isolation = \"{}\"\n"
                                            "[decode_balancer]\npolicy = \"bad\"\n"
                                            "mode = \"exits\"\nafter = 500\n",
                                            TROUPE_PLUGIN_DIR, isolation));
    const ProcessEnd end = job.run({"--policies", "set.toml"});
    EXPECT_EQ(end.code, 1) << end.err;
    EXPECT_NE(end.err.find("called exit()"), std::string::npos) << end.err;
    EXPECT_LT(job.answers().lines, 2'000);
    const ProcessEnd rest = job.run();
    EXPECT_EQ(rest.code, 0) << rest.err;
    EXPECT_EQ(job.answers().lines, 2'000);
    EXPECT_TRUE(job.answers().is_exact());
  }
}

} // namespace
} // namespace troupe::test
