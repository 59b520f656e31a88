// The C++ header of the SDK: classes become C tables that the host's adapter and the suite take,
// exceptions stay inside, options are read, and wrong strides are found.

#include "schedulers/conformance/plugin_suite.hpp"
#include "schedulers/conformance/question_source.hpp"
#include "schedulers/plugin/plugin_policy.hpp"
#include "schedulers/plugin/troupe_policy.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <stdexcept>
#include <string>

namespace {

using namespace troupe::sdk;

/// One policy of each kind, none of them clever.
struct ByWork : Queue {
  std::uint32_t order(const Requests& waiting, const Call&, Order& order) override {
    order.by(waiting, [](const RequestView& request) { return request.arrival_us; });
    return TROUPE_REASON_IN_ORDER;
  }
};

struct LeastWork : PrefillRouter {
  Verdict route(const Question& question, const Call& call, Choice& choice) override {
    return choice.lowest(question.request, [&](const RankView& rank, std::size_t place) {
      return add(rank.work_ps, call.marginal_ps(question.local_hit(place), 0));
    });
  }
};

/// In turn, with a state of eight bytes.
struct InTurn : DecodeBalancer {
  std::uint64_t turn = 0;
  Verdict place(const Question& question, const Call&, Choice& choice) override {
    const std::uint64_t now = turn++;
    return choice.lowest(question.request, [&](const RankView&, std::size_t place) {
      const std::size_t n = question.ranks.size();
      return static_cast<std::int64_t>((place + n - now % n) % n);
    });
  }
  std::string export_state() const override {
    return std::string(reinterpret_cast<const char*>(&turn), sizeof turn);
  }
  bool import_state(std::string_view state) override {
    if (state.size() != sizeof turn) return false;
    std::memcpy(&turn, state.data(), sizeof turn);
    return true;
  }
};

struct HalfSteps : PrefillChunker {
  Verdict pack(const Question& question, const Call&, Shares& shares) override {
    if (question.requests.empty()) return Verdict::none(TROUPE_REASON_NOTHING_TO_DO);
    const std::int64_t most = std::max<std::int64_t>(1, question.step_tokens_max / 2);
    shares.add(0, std::min(most, troupe_remaining(&question.requests[0])));
    return Verdict::done(TROUPE_REASON_BUDGET_REACHED);
  }
};

struct AdmitsAll : Admission {
  Answer admit(const RequestView&, const LoadView&, const Call&) override {
    return {true, TROUPE_REASON_ADMITTED};
  }
};

struct MovesNow : Handoff {
  Verdict plan(const troupe_handoff_question&, const Call&) override {
    return Verdict::done(TROUPE_REASON_ONLY_CHOICE);
  }
};

struct DecodesFirst : Step {
  std::uint32_t compose(const Question& question, const Call&, std::vector<std::uint32_t>& decodes,
                        Shares& slices) override {
    std::int64_t left = question.step_tokens_max;
    for (std::uint32_t i = 0; i < question.decodes.size() && left > 0; ++i, --left)
      decodes.push_back(i);
    if (left > 0 && !question.slices.empty()) {
      slices.add(0, std::min(left, question.slices[0].count));
    }
    return TROUPE_REASON_IN_ORDER;
  }
};

struct PlansAhead : Overlap {
  Answer plan(const OverlapView& view, const Call&) override {
    const bool fits = view.plans_held == 0 || view.blocks_most <= view.blocks_free;
    return {fits, fits ? TROUPE_REASON_IN_ORDER : TROUPE_REASON_HELD_BACK};
  }
};

/// Reads views as if nothing were ever added to them.
struct IgnoresStride : ByWork {
  std::uint32_t order(const Requests& waiting, const Call& call, Order& order) override {
    if (waiting.size() < 2) return ByWork::order(waiting, call, order);
    const RequestView* second = &waiting[0] + 1;
    for (std::uint32_t i = 0; i < order.size(); ++i)
      order[i] = i;
    if (second->request != waiting[1].request) std::swap(order[0], order[1]);
    return TROUPE_REASON_IN_ORDER;
  }
};

struct Throws : ByWork {
  std::uint32_t order(const Requests&, const Call&, Order&) override {
    throw std::runtime_error("no order today");
  }
};

struct CannotBegin : ByWork {
  explicit CannotBegin(const Options& options) {
    if (options.integer("mood", 0) < 5) throw std::runtime_error("mood is below 5");
  }
};

} // namespace

TROUPE_PLUGIN("sdk_test", "1.2.3", policy<ByWork>("by_work"), policy<LeastWork>("least"),
              policy<InTurn>("in_turn"), policy<HalfSteps>("half_steps"),
              policy<AdmitsAll>("admits_all"), policy<MovesNow>("moves_now"),
              policy<DecodesFirst>("decodes_first"), policy<PlansAhead>("plans_ahead"),
              policy<IgnoresStride>("ignores_stride"), policy<Throws>("throws"),
              policy<CannotBegin>("cannot_begin"));

namespace troupe::sched {
namespace {

using conformance::Finding;

PluginPolicy named(const std::string& name) {
  const auto table = read_plugin(troupe_plugin_entry(TROUPE_ABI_MAJOR));
  EXPECT_TRUE(table.ok()) << table.status().error().message;
  for (const PluginPolicy& one : table->policies) {
    if (one.name == name) return one;
  }
  ADD_FAILURE() << "no policy " << name;
  return {};
}

struct Ran {
  std::map<std::string, Finding> findings;

  explicit Ran(const std::string& name, const std::string& options = "{}") {
    const conformance::Listener listener{
        [](const std::string&) {},
        [&](const std::string& check, const Finding& found) { findings[check] = found; }};
    conformance::run_plugin_suite(named(name), options, {}, listener);
  }
  std::string failed() const {
    std::string all;
    for (const auto& [name, finding] : findings) {
      if (!finding.ok) all += (all.empty() ? "" : " ") + name;
    }
    return all;
  }
};

TEST(Sdk, TablesAreAsTheHostWantsThem) {
  const troupe_plugin* plugin = troupe_plugin_entry(TROUPE_ABI_MAJOR);
  ASSERT_NE(plugin, nullptr);
  EXPECT_EQ(troupe_plugin_entry(TROUPE_ABI_MAJOR + 1), nullptr);
  EXPECT_STREQ(plugin->version, "1.2.3");
  EXPECT_EQ(plugin->n, 11U);
}

TEST(Sdk, APolicyOfEachKindPassesTheSuite) {
  std::printf("seed 1\n");
  for (const char* name : {"by_work", "least", "in_turn", "half_steps", "admits_all", "moves_now",
                           "decodes_first", "plans_ahead"}) {
    const Ran ran(name);
    EXPECT_EQ(ran.failed(), "") << name;
    EXPECT_TRUE(ran.findings.count("stride") == 1 && ran.findings.count("create_fails") == 1)
        << name;
  }
}

TEST(Sdk, ViewsReadWithoutTheirStrideAreFound) {
  const Ran ran("ignores_stride");
  EXPECT_EQ(ran.failed(), "stride");
  EXPECT_NE(ran.findings.at("stride").detail.find("64 bytes longer"), std::string::npos);
}

TEST(Sdk, AnExceptionIsAFailedCallWithItsText) {
  const Ran ran("throws");
  EXPECT_NE(ran.failed().find("valid"), std::string::npos);
  EXPECT_NE(ran.findings.at("valid").detail.find("no order today"), std::string::npos)
      << ran.findings.at("valid").detail;
}

TEST(Sdk, ACreateThatThrowsIsReportedInItsWords) {
  const Ran ran("cannot_begin", R"({"mood": 4})");
  EXPECT_EQ(ran.failed(), "create");
  EXPECT_NE(ran.findings.at("create").detail.find("mood is below 5"), std::string::npos);
  EXPECT_EQ(ran.findings.size(), 1U);
  EXPECT_EQ(Ran("cannot_begin", R"({"mood": 5})").failed(), "");
}

TEST(Sdk, OptionsAreReadFromTheObject) {
  const char* json = "{ \"a\" : -12, \"deep\": {\"b\": 1, \"x\": [\"}\", 2]}, \"b\":2, "
                     "\"c\":1.25,\"d\":\t\"w\\\"ord\", \"e\":true, \"f\":false, \"g\":\"word\"}";
  EXPECT_EQ(troupe_option_integer(json, "a", 7), -12);
  EXPECT_EQ(troupe_option_integer(json, "b", 7), 2) << "not the nested one";
  EXPECT_EQ(troupe_option_integer(json, "x", 7), 7);
  EXPECT_EQ(troupe_option_integer(json, "g", 7), 7) << "a string is no number";
  EXPECT_EQ(troupe_option_thousandths(json, "c", 7), 1250);
  EXPECT_EQ(troupe_option_thousandths(json, "a", 7), -12'000);
  EXPECT_EQ(troupe_option_boolean(json, "e", 0), 1);
  EXPECT_EQ(troupe_option_boolean(json, "f", 1), 0);
  EXPECT_EQ(troupe_option_boolean(json, "a", 1), 1);
  EXPECT_TRUE(troupe_option_is(json, "g", "word"));
  EXPECT_FALSE(troupe_option_is(json, "g", "wor"));
  EXPECT_FALSE(troupe_option_is(json, "d", "word"));
  for (const char* broken : {"", "[", "{", "{\"", "{\"a", "{\"a\"", "{\"a\":", "{\"a\":\"",
                             "{\"a\":\"\\", "{\"b\":[[[", "{\"b\":1", "{\"b\":1,"}) {
    EXPECT_EQ(troupe_option_integer(broken, "a", 7), 7) << broken;
  }
}

TEST(Sdk, SumsStopAtTheEndsOfTheirRange) {
  EXPECT_EQ(sdk::add(INT64_MAX, 1), INT64_MAX);
  EXPECT_EQ(sdk::add(INT64_MIN, -1), INT64_MIN);
  EXPECT_EQ(sdk::add(2, -3), -1);
}

} // namespace
} // namespace troupe::sched
